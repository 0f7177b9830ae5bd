package rocketqueue

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// FuzzReadFrame: whatever a server sends, reading it ends, with a frame or an error.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x10\x00\x00\x00\x0a{\"code\":0}xx"))
	f.Add([]byte("\xff\xff\xff\xff\x00\x00\x00\x0a"))
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x0a"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = readFrame(bytes.NewReader(data))
	})
}

// pipeConn is a connection to a server that the test plays.
func pipeConn(t *testing.T) (*conn, net.Conn) {
	client, server := net.Pipe()
	c := &conn{net: client, gone: make(chan struct{}), waiting: map[int32]chan frame{}}
	go c.read()
	t.Cleanup(func() {
		c.close(errors.New("the test is over"))
		_ = server.Close()
	})
	return c, server
}

// answer reads one question and answers it.
func answer(server net.Conn, code int) {
	f, err := readFrame(server)
	if err != nil {
		return
	}
	back := conn{net: server}
	_ = back.write(time.Now().Add(time.Minute), header{Code: code, Opaque: f.Opaque, Flag: flagResponse, Remark: "said"}, f.body)
}

// A question is answered, whatever was asked before without an answer.
func TestCallFindsItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := pipeConn(t)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { _, _ = readFrame(server) }()
		if _, err := c.call(short, askPull, nil, nil, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the deadline", err)
		}
		go answer(server, saidBusy)
		f, err := c.call(t.Context(), askPull, nil, []byte("body"), 0)
		if err != nil || f.Code != saidBusy || string(f.body) != "body" || !wasRefused(f.expect(saidOK), saidBusy) {
			t.Fatalf("got %+v, %v", f, err)
		}
	})
}

// A server that does not answer loses the connection, and all who wait on it hear of it.
func TestSilentServerLosesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := pipeConn(t)
		go func() {
			for {
				if _, err := readFrame(server); err != nil {
					return
				}
			}
		}()
		other := make(chan error, 1)
		go func() {
			_, err := c.call(t.Context(), askPull, nil, nil, time.Hour)
			other <- err
		}()
		began := time.Now()
		if _, err := c.call(t.Context(), askCommit, nil, nil, 0); err == nil {
			t.Fatal("an answer from a server that is silent")
		}
		if took := time.Since(began); took != callTime {
			t.Errorf("it took %v, want %v", took, callTime)
		}
		if err := <-other; err == nil {
			t.Error("the other question was answered")
		}
		if took := time.Since(began); took != callTime {
			t.Errorf("the other heard of it after %v, want %v", took, callTime)
		}
		if _, err := c.call(t.Context(), askCommit, nil, nil, 0); err == nil {
			t.Error("a connection that was given up is used again")
		}
	})
}

// The signature is the one that Apache's clients make: all values in the order of their
// names, and the body.
func TestSign(t *testing.T) {
	got := credentials{"access", "secret"}.sign(map[string]string{"topic": "t", "a": "1"}, []byte("body"))
	// printf 'access1tbody' | openssl dgst -sha1 -hmac secret -binary | base64
	if want := "DYrQ7oHE9K6TlXniiqa0oKe1KkU="; got["Signature"] != want || got["AccessKey"] != "access" {
		t.Fatalf("got %v, want the signature %s", got, want)
	}
}
