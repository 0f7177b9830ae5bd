package rocketqueue

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // The servers ask for it.
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// What is asked of servers, and what they ask.
const (
	askPull            = 11
	askCommitted       = 14
	askCommit          = 15
	askCreateTopic     = 17
	askMaxOffset       = 30
	askMinOffset       = 31
	askHeartbeat       = 34
	askUnregister      = 35
	askMembers         = 38
	tellMembersChanged = 40
	askRoute           = 105
	askCluster         = 106
	askSendBatch       = 320
)

// What servers answer.
const (
	saidOK           = 0
	saidBusy         = 2
	saidNotSupported = 3
	saidNoPermission = 16
	saidNoTopic      = 17
	saidNothingNew   = 19
	saidAskAgain     = 20
	saidOffsetMoved  = 21
	saidNotFound     = 22
	saidNoGroup      = 26
)

const (
	dialTime     = 3 * time.Second
	callTime     = 4 * time.Second // What an answer may take, beyond what the question asks to wait.
	frameMax     = 64 << 20
	flagResponse = 1
	flagOneWay   = 2
	wireVersion  = 317 // What Apache's Go client calls itself.
)

// header is the first part of a frame, in JSON.
type header struct {
	Code      int               `json:"code"`
	Language  string            `json:"language"`
	Version   int               `json:"version"`
	Opaque    int32             `json:"opaque"`
	Flag      int               `json:"flag"`
	Remark    string            `json:"remark,omitempty"`
	ExtFields map[string]string `json:"extFields,omitempty"`
}

// frame is a question or an answer.
type frame struct {
	header
	body []byte
}

// refused is the answer of a server that did not do what it was asked for.
type refused struct {
	code   int
	remark string
}

func (r *refused) Error() string { return fmt.Sprintf("the server says %d: %.300s", r.code, r.remark) }

// wasRefused tells whether err is one of these answers.
func wasRefused(err error, codes ...int) bool {
	var r *refused
	return errors.As(err, &r) && slices.Contains(codes, r.code)
}

// expect makes an error of any answer but these.
func (f frame) expect(codes ...int) error {
	if slices.Contains(codes, f.Code) {
		return nil
	}
	return &refused{f.Code, f.Remark}
}

// credentials sign what is sent, if there are any.
type credentials struct{ access, secret string }

// sign adds what a server with access control asks for.
func (c credentials) sign(fields map[string]string, body []byte) map[string]string {
	if c.access == "" {
		return fields
	}
	fields = maps.Clone(fields)
	if fields == nil {
		fields = map[string]string{}
	}
	fields["AccessKey"] = c.access
	mac := hmac.New(sha1.New, []byte(c.secret))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		mac.Write([]byte(fields[name]))
	}
	mac.Write(body)
	fields["Signature"] = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return fields
}

// conn is a connection to a server that many calls share. A call that is not answered in
// time takes the connection down: the next one is a new one.
type conn struct {
	net    net.Conn
	keys   credentials
	opaque atomic.Int32
	told   func(code int) // Called with what the server says unasked.
	writes sync.Mutex
	gone   chan struct{} // Closed when the connection is of no use any more.

	mu      sync.Mutex
	waiting map[int32]chan frame
	err     error // Why it is gone.
}

func dial(ctx context.Context, addr string, keys credentials, told func(int)) (*conn, error) {
	dialer := net.Dialer{Timeout: dialTime}
	n, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &conn{net: n, keys: keys, told: told, gone: make(chan struct{}), waiting: map[int32]chan frame{}}
	go c.read()
	return c, nil
}

// close ends the connection, and every call on it with the reason.
func (c *conn) close(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = why
	close(c.gone)
	_ = c.net.Close()
}

func (c *conn) broken() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *conn) read() {
	in := bufio.NewReaderSize(c.net, 64<<10)
	for {
		f, err := readFrame(in)
		if err != nil {
			c.close(fmt.Errorf("connection lost: %w", err))
			return
		}
		if f.Flag&flagResponse == 0 {
			c.hear(f)
			continue
		}
		c.mu.Lock()
		answer := c.waiting[f.Opaque]
		delete(c.waiting, f.Opaque)
		c.mu.Unlock()
		if answer != nil {
			answer <- f // It has room.
		}
	}
}

// hear takes what the server says unasked.
func (c *conn) hear(f frame) {
	if c.told != nil {
		c.told(f.Code)
	}
	if f.Flag&flagOneWay == 0 {
		no := header{Code: saidNotSupported, Opaque: f.Opaque, Flag: flagResponse, Remark: "not supported"}
		_ = c.write(time.Now().Add(callTime), no, nil)
	}
}

// call asks, and waits for the answer: as long as ctx lasts, and callTime beyond what the
// question itself tells the server to wait.
func (c *conn) call(ctx context.Context, code int, fields map[string]string, body []byte, wait time.Duration) (frame, error) {
	if err := ctx.Err(); err != nil {
		return frame{}, err
	}
	h := header{Code: code, Opaque: c.opaque.Add(1), ExtFields: c.keys.sign(fields, body)}
	answer := make(chan frame, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return frame{}, c.err
	}
	c.waiting[h.Opaque] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, h.Opaque)
		c.mu.Unlock()
	}()
	patience := time.NewTimer(wait + callTime)
	defer patience.Stop()
	if err := c.write(time.Now().Add(callTime), h, body); err != nil {
		c.close(fmt.Errorf("connection lost: %w", err))
		return frame{}, c.broken()
	}
	select {
	case f := <-answer:
		return f, nil
	case <-ctx.Done():
		return frame{}, ctx.Err()
	case <-c.gone:
		return frame{}, c.broken()
	case <-patience.C:
		c.close(errors.New("connection given up: the server does not answer"))
		return frame{}, c.broken()
	}
}

func (c *conn) write(deadline time.Time, h header, body []byte) error {
	h.Language, h.Version = "GO", wireVersion
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	out := make([]byte, 8, 8+len(head)+len(body))
	binary.BigEndian.PutUint32(out, uint32(4+len(head)+len(body))) //nolint:gosec // Far below 4 GiB.
	binary.BigEndian.PutUint32(out[4:], uint32(len(head)))         //nolint:gosec // The top byte says JSON: 0.
	out = append(append(out, head...), body...)
	c.writes.Lock()
	defer c.writes.Unlock()
	if err := c.net.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err = c.net.Write(out)
	return err
}

func readFrame(in io.Reader) (frame, error) {
	var sizes [8]byte
	if _, err := io.ReadFull(in, sizes[:]); err != nil {
		return frame{}, err
	}
	size, head := binary.BigEndian.Uint32(sizes[:]), binary.BigEndian.Uint32(sizes[4:])
	if head>>24 != 0 {
		return frame{}, errors.New("the server does not answer in JSON")
	}
	if size < 4 || size > frameMax || head > size-4 {
		return frame{}, fmt.Errorf("a frame of %d bytes with a header of %d", size, head)
	}
	data := make([]byte, size-4)
	if _, err := io.ReadFull(in, data); err != nil {
		return frame{}, err
	}
	f := frame{body: data[head:]}
	if err := json.Unmarshal(data[:head], &f.header); err != nil {
		return frame{}, fmt.Errorf("header: %w", err)
	}
	return f, nil
}
