package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/valyala/fasthttp"

	"seckill"
)

// Identity is how buyers say who they are. The zero value is open: X-User-Id.
type Identity struct {
	Header string // Put the buyer's id into this header.
	Secret string // Sign a JWT (HS256) for the buyer with this; it wins over Header.
}

// header returns the name and the value that make a request the buyer's.
func (id Identity) header(buyer string) (name, value string, err error) {
	switch {
	case id.Secret != "":
		now := time.Now()
		claims := jwt.RegisteredClaims{Subject: buyer, IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(time.Hour))}
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(id.Secret))
		if err != nil {
			return "", "", fmt.Errorf("sign a buyer's token: %w", err)
		}
		return "Authorization", "Bearer " + token, nil
	case id.Header != "":
		return id.Header, buyer, nil
	}
	return "X-User-Id", buyer, nil
}

// failure is how a request ended without an answer of the API.
type failure uint8

const (
	noFailure failure = iota
	timedOut
	notConnected
	cut
	badStatus
	malformed
	failures int = iota
)

var failureNames = [failures]string{noFailure: "", timedOut: "timeout", notConnected: "connect", cut: "cut", badStatus: "status", malformed: "malformed"}

// answer to one click.
type answer struct {
	failed failure
	reason seckill.Reason // NoReason: accepted.
	ticket string         // When accepted.
}

// gun is what all requests of a run have in common.
type gun struct {
	address, base, path string
	tls                 *tls.Config // Nil without TLS.
	body                []byte
	identity            Identity
	timeout             time.Duration
}

func newGun(u *url.URL, o Options) *gun {
	g := &gun{
		address:  u.Host,
		base:     u.Scheme + "://" + u.Host,
		path:     "/v1/activities/" + strconv.FormatInt(o.Activity, 10) + "/purchases",
		body:     []byte(`{"quantity":` + strconv.Itoa(o.Quantity) + `}`),
		identity: o.Identity,
		timeout:  o.Timeout,
	}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
		g.tls = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	}
	if u.Port() == "" {
		g.address = net.JoinHostPort(u.Hostname(), port)
	}
	return g
}

const (
	dialTimeout = 5 * time.Second
	// A kept connection that the server is about to close would look like an error of the server.
	idleMax       = 5 * time.Second
	replyBytesMax = 1 << 20
)

// barrel makes one request at a time over a connection of its own, which it keeps. It
// never repeats a request.
type barrel struct {
	*gun
	conn net.Conn // Nil when there is none.
	in   *bufio.Reader
	out  *bufio.Writer
	used time.Time
}

func (g *gun) barrel() *barrel { return &barrel{gun: g} }

func (b *barrel) close() {
	if b.conn != nil {
		_ = b.conn.Close() // Nothing is lost with it.
		b.conn = nil
	}
}

// connect makes sure that there is a connection.
func (b *barrel) connect() error {
	if b.conn != nil && time.Since(b.used) < idleMax {
		return nil
	}
	b.close()
	// Bounded by its timeout alone: a run that ends lets its requests end.
	conn, err := (&net.Dialer{Timeout: min(dialTimeout, b.timeout)}).DialContext(context.Background(), "tcp", b.address)
	if err != nil {
		return err
	}
	if b.tls != nil {
		conn = tls.Client(conn, b.tls)
	}
	b.conn, b.in, b.out = conn, bufio.NewReader(conn), bufio.NewWriter(conn)
	return nil
}

// purchase is one click of a buyer.
func (b *barrel) purchase(buyer string) answer {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.Header.SetMethod(fasthttp.MethodPost)
	req.Header.SetContentType("application/json")
	req.SetBodyRaw(b.body)
	if a := b.do(req, resp, buyer, b.path); a.failed != noFailure {
		return a
	}
	if resp.StatusCode() == fasthttp.StatusAccepted {
		var t struct {
			Ticket string `json:"ticket"`
		}
		if err := json.Unmarshal(resp.Body(), &t); err != nil || t.Ticket == "" {
			return answer{failed: malformed}
		}
		return answer{ticket: t.Ticket}
	}
	return refusal(resp)
}

// ticketState is what a ticket says of itself.
type ticketState struct {
	State  string `json:"state"`
	Reason string `json:"reason"`
	Order  *struct {
		PayBefore time.Time `json:"pay_before"`
		Quantity  int       `json:"quantity"`
	} `json:"order"`
}

// ticket asks for a buyer's ticket.
func (b *barrel) ticket(buyer, ticket string) (ticketState, answer) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	var t ticketState
	if a := b.do(req, resp, buyer, "/v1/tickets/"+url.PathEscape(ticket)); a.failed != noFailure {
		return t, a
	}
	if resp.StatusCode() != fasthttp.StatusOK {
		return t, refusal(resp)
	}
	if err := json.Unmarshal(resp.Body(), &t); err != nil || t.State == "" {
		return t, answer{failed: malformed}
	}
	return t, answer{}
}

func (b *barrel) do(req *fasthttp.Request, resp *fasthttp.Response, buyer, path string) answer {
	req.SetRequestURI(b.base + path)
	name, value, err := b.identity.header(buyer)
	if err != nil {
		return answer{failed: malformed}
	}
	req.Header.Set(name, value)
	if err := b.connect(); err != nil {
		return answer{failed: notConnected}
	}
	if err := b.exchange(req, resp); err != nil {
		b.close()
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, fasthttp.ErrTimeout) { // fasthttp makes its own of it.
			return answer{failed: timedOut}
		}
		return answer{failed: cut}
	}
	b.used = time.Now()
	if resp.ConnectionClose() {
		b.close()
	}
	return answer{}
}

func (b *barrel) exchange(req *fasthttp.Request, resp *fasthttp.Response) error {
	if err := b.conn.SetDeadline(time.Now().Add(b.timeout)); err != nil {
		return err
	}
	if err := req.Write(b.out); err != nil {
		return err
	}
	if err := b.out.Flush(); err != nil {
		return err
	}
	return resp.ReadLimitBody(b.in, replyBytesMax)
}

var reasonField = []byte(`"reason":"`)

// refusal reads the reason out of a problem without decoding all of it: there are a million.
func refusal(resp *fasthttp.Response) answer {
	_, rest, ok := bytes.Cut(resp.Body(), reasonField)
	name, _, ok2 := bytes.Cut(rest, []byte{'"'})
	if reason, known := seckill.ParseReason(string(name)); ok && ok2 && known && reason != seckill.NoReason && resp.StatusCode() >= 400 {
		return answer{reason: reason}
	}
	return answer{failed: badStatus}
}
