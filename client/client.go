// Package client speaks the HTTP API of a seckill server: [Buyer] its public part,
// [Admin] the operator's. It keeps no state of a sale and decides nothing.
//
// What is safe to repeat is repeated after an unclear end: reading, and whatever the API
// promises to do once (a purchase under its idempotency key, paying, cancelling).
// Nothing else is. An answer that says no is a *[Problem].
//
// The commands of the seckill binary use it, and so may any program in Go.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"seckill"
)

// Options of a client.
type Options struct {
	// Server is the listener's address as http://host:port or https://host. Required.
	Server string
	// Token is sent as the bearer token: the admin token, or a buyer's JWT.
	Token string
	// Header is sent with each request besides: X-User-Id under open auth, Accept-Language.
	Header http.Header
	// HTTP makes the requests. Default: a client of its own, that keeps connections.
	HTTP *http.Client
	// Timeout of one call, repetitions included; streams are bounded by their context
	// alone. Default 30s.
	Timeout time.Duration
	// AttemptsMax is how often a call that is safe to repeat is made at most. Default 3.
	AttemptsMax int
	// OnAnswer is shown the body of each answer that says yes, as it came. Default none.
	OnAnswer func(body []byte)
}

const (
	bodyBytesMax = 16 << 20
	pauseMax     = 5 * time.Second
)

// caller makes calls; Buyer and Admin are made of it.
type caller struct {
	Options
	base string
}

func newCaller(o Options) (caller, error) {
	u, err := url.Parse(o.Server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return caller{}, errors.New("the server's address has to be http://host:port or https://host")
	}
	for _, r := range o.Token {
		if r <= ' ' || r > '~' {
			return caller{}, errors.New("the token has characters that a header cannot carry")
		}
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{Transport: transport()}
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.AttemptsMax <= 0 {
		o.AttemptsMax = 3
	}
	return caller{o, strings.TrimRight(u.Scheme+"://"+u.Host+u.Path, "/")}, nil
}

func transport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     true,
	}
}

// call is one request of the API.
type call struct {
	method, path string
	query        url.Values
	body         any    // Encoded as JSON; raw bytes are sent as they are. nil for none.
	kind         string // Content type of raw bytes.
	header       http.Header
	once         bool // Repeating it might do it twice.
}

// do makes a call, again if that is safe, and decodes the answer into v (nil to drop it).
func (c *caller) do(ctx context.Context, k call, v any) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := c.try(ctx, k, v)
		if err == nil || k.once || attempt >= c.AttemptsMax || !unclear(err) || ctx.Err() != nil {
			return err
		}
		if !pause(ctx, attempt, err) {
			return err // It says more than that time is up.
		}
	}
}

// unclear tells whether the call may yet succeed, or may have.
func unclear(err error) bool {
	if p, ok := errors.AsType[*Problem](err); ok {
		// Paused is a definite no, for now.
		return p.Status == http.StatusServiceUnavailable && p.Reason != seckill.Paused.String() || p.Status == http.StatusBadGateway || p.Status == http.StatusGatewayTimeout
	}
	var malformed *MalformedError
	return !errors.As(err, &malformed)
}

// pause waits before the next attempt, as long as the server asks for or a little more
// each time. It tells whether there is time left for another.
func pause(ctx context.Context, attempt int, err error) bool {
	wait := 100 * time.Millisecond << min(attempt-1, 5)
	wait += rand.N(wait)
	var p *Problem
	if errors.As(err, &p) && p.RetryAfter > 0 {
		wait = p.RetryAfter
	}
	wait = min(wait, pauseMax)
	if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
		return false
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (c *caller) try(ctx context.Context, k call, v any) error {
	resp, err := c.send(ctx, k)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, bodyBytesMax+1))
	if err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", k.method, k.path, err)
	}
	if resp.StatusCode >= 300 {
		return problemOf(resp, body)
	}
	if len(body) > bodyBytesMax {
		return &MalformedError{k.method + " " + k.path, errors.New("it is longer than 16 MiB")}
	}
	if c.OnAnswer != nil {
		c.OnAnswer(body)
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return &MalformedError{k.method + " " + k.path, err}
	}
	return nil
}

// send makes one request; the caller closes the body.
func (c *caller) send(ctx context.Context, k call) (*http.Response, error) {
	var body io.Reader
	kind := k.kind
	switch b := k.body.(type) {
	case nil:
	case []byte:
		body = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return nil, fmt.Errorf("encode the body of %s %s: %w", k.method, k.path, err)
		}
		body, kind = bytes.NewReader(text), "application/json"
	}
	address := c.base + k.path
	if len(k.query) > 0 {
		address += "?" + k.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, k.method, address, body)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	for _, h := range []http.Header{c.Header, k.header} {
		maps.Copy(req.Header, h)
	}
	req.Header.Set("User-Agent", "seckill-client")
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	return resp, nil
}

// MalformedError is an answer that is not what the API promises: something else
// listens there, or a newer server.
type MalformedError struct {
	Call string // Method and path.
	Err  error
}

// Error names the call.
func (e *MalformedError) Error() string {
	return "the answer to " + e.Call + " is not what was expected: " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *MalformedError) Unwrap() error { return e.Err }
