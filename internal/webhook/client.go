package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"seckill"
)

// Bounds of one request.
const (
	// answerBytesMax of an answer are read, so that the connection can be used again, and thrown away.
	answerBytesMax = 16 << 10
	headerBytesMax = 16 << 10
	resolveTimeout = 5 * time.Second
	// retryAfterMax bounds what a receiver may ask for.
	retryAfterMax = time.Hour
	// idleMax is how many connections to one receiver are kept.
	idleMax = 8
)

// ClientOptions of a [Client]. The zero value is the usual one.
type ClientOptions struct {
	// AllowPrivate lets http through, and addresses that are not public.
	AllowPrivate bool
	// Timeout of one request, from the look-up of the name to the end of the answer; 10 s by default.
	Timeout time.Duration
	// Resolve looks a name up when it is registered; the system's way by default.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
}

// Client makes requests to receivers. Addresses that are not public are refused when a connection
// is made, after its name was looked up: what a name leads to may change at any time.
type Client struct {
	o    ClientOptions
	http *http.Client
}

// Answer is what became of a request.
type Answer struct {
	Status     int           // 0 if there was none.
	RetryAfter time.Duration // When the receiver wants to be left alone; 0 if it said nothing.
	Err        error         // nil if it was received: a status of 200 to 299.
}

// NewClient makes a client.
func NewClient(o ClientOptions) *Client {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Resolve == nil {
		o.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	dialer := &net.Dialer{Timeout: o.Timeout}
	if !o.AllowPrivate {
		dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			return checkDial(address)
		}
	}
	return &Client{o: o, http: &http.Client{
		Timeout: o.Timeout,
		Transport: &http.Transport{
			// No proxy: it would look names up where no address is checked.
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    o.Timeout,
			MaxResponseHeaderBytes: headerBytesMax,
			MaxIdleConnsPerHost:    idleMax,
			IdleConnTimeout:        time.Minute,
		},
		// A redirect is no answer: it may lead anywhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends connections that are kept.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func checkDial(address string) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("the address %q cannot be read", address)
	}
	if !public(a.Addr()) {
		return fmt.Errorf("%s is not a public address", a.Addr())
	}
	return nil
}

// Check says what is wrong with the address of a receiver. A name has to lead to public addresses
// only, now; requests look again.
func (c *Client) Check(ctx context.Context, address string) []seckill.FieldError {
	u, wrong := parseURL(address, c.o.AllowPrivate)
	if wrong != nil || c.o.AllowPrivate {
		return wrong
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	addresses, err := c.o.Resolve(ctx, u.Hostname())
	if err != nil || len(addresses) == 0 {
		return []seckill.FieldError{{Field: "url", Rule: seckill.RuleFormat, Arg: "a host whose name can be looked up"}}
	}
	for _, a := range addresses {
		if !public(a) {
			return []seckill.FieldError{{Field: "url", Rule: seckill.RuleFormat, Arg: "a host with public addresses only"}}
		}
	}
	return nil
}

// Send signs a body and sends it once.
func (c *Client) Send(ctx context.Context, target seckill.WebhookTarget, id string, body []byte) Answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.URL, bytes.NewReader(body))
	if err != nil {
		return Answer{Err: errors.New("the address cannot be read")}
	}
	now := time.Now()
	signatures, err := sign(target.Secrets, id, now, body)
	if err != nil {
		return Answer{Err: err}
	}
	h := request.Header
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "seckill-webhook")
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, signatures)
	response, err := c.http.Do(request)
	if err != nil {
		return Answer{Err: plain(err)}
	}
	defer func() { _ = response.Body.Close() }() // Nothing of it is wanted.
	// Should the rest not come, the status has, and that is the answer.
	_, _ = io.CopyN(io.Discard, response.Body, answerBytesMax)
	a := Answer{Status: response.StatusCode}
	switch {
	case a.Status >= 200 && a.Status < 300:
		return a
	case a.Status >= 300 && a.Status < 400:
		a.Err = fmt.Errorf("status %d: redirects are not followed", a.Status)
	default:
		a.Err = fmt.Errorf("status %d", a.Status)
	}
	if a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable {
		a.RetryAfter = retryAfter(response.Header.Get("Retry-After"), now)
	}
	return a
}

// sign makes the signature of each secret, as one header.
func sign(secrets []string, id string, now time.Time, body []byte) (string, error) {
	var all []byte
	for i, secret := range secrets {
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return "", errors.New("the webhook's secret cannot be read") // Its error may show it.
		}
		signature, err := signer.Sign(id, now, body)
		if err != nil {
			return "", fmt.Errorf("sign: %w", err)
		}
		if i > 0 {
			all = append(all, ' ')
		}
		all = append(all, signature...)
	}
	return string(all), nil
}

// plain leaves the address out of an error: it may hold a token.
func plain(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		if e.Timeout() {
			return fmt.Errorf("no answer in time: %w", e.Err)
		}
		return e.Err
	}
	return err
}

// retryAfter reads the header, seconds or a date, and bounds it.
func retryAfter(text string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if when, err := http.ParseTime(text); err == nil {
		wait = when.Sub(now)
	}
	return min(max(wait, 0), retryAfterMax)
}
