// Command server is the same small server on three HTTP engines, so that the
// driver can compare what the engines themselves cost. It is not a seckill
// server: its answers are fixed.
//
//	POST /v1/activities/{id}/purchases  scans the body, answers 410
//	GET  /events                        one event at once, one after POST /fire
//	POST /fire                          lets every waiting client go
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	readTimeout = 5 * time.Second
	idleTimeout = 60 * time.Second
	stopWait    = 4 * time.Second
	// announce is how long a draining server still accepts and answers, each
	// answer with Connection: close, before it closes its listener.
	announce = 500 * time.Millisecond
	bodyMax  = 4 << 10
)

var problem = []byte(`{"type":"about:blank","status":410,"title":"Sold out","reason":"sold_out",` +
	`"msg":"Everything has been sold. Thank you for coming, and good luck."}`)

// options are what the driver varies.
type options struct {
	sse    string // fasthttp only: stream, hijack or keep.
	reduce bool   // fasthttp only: ReduceMemoryUsage.
	drain  bool   // Announce the stop to kept connections before closing them.
}

// engine is one HTTP engine. serve blocks; stop makes it return.
type engine interface {
	serve(net.Listener) error
	stop() error
}

// leaving is set once a draining server wants its connections back.
var leaving atomic.Bool

func main() {
	name := flag.String("engine", "fasthttp", "fasthttp, hertz or nethttp")
	listen := flag.String("listen", "127.0.0.1:18080", "loopback address")
	var o options
	flag.StringVar(&o.sse, "sse", "keep", "fasthttp: how events are sent: stream, hijack or keep")
	flag.BoolVar(&o.reduce, "reduce", false, "fasthttp: ReduceMemoryUsage")
	flag.BoolVar(&o.drain, "drain", false, "announce the stop before closing idle connections")
	flag.Parse()
	if err := run(*name, *listen, o); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

func run(name, listen string, o options) error {
	h := newHub()
	var e engine
	switch name {
	case "fasthttp":
		e = newFast(h, o)
	case "hertz":
		e = newHertz(h)
	case "nethttp":
		e = newStd(h)
	default:
		return fmt.Errorf("no engine %q", name)
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, syscall.SIGTERM, syscall.SIGINT)
	served := make(chan error, 1)
	go func() { served <- e.serve(ln) }()
	select {
	case err := <-served:
		return err
	case <-sig:
	}
	if o.drain {
		leaving.Store(true)
		time.Sleep(announce)
	}
	h.fire()
	if err := e.stop(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		fmt.Fprintln(os.Stderr, "server: stop:", err)
	}
	return nil
}

// isPurchase reports whether path is /v1/activities/{digits}/purchases.
func isPurchase(path []byte) bool {
	const head, tail = "/v1/activities/", "/purchases"
	if len(path) <= len(head)+len(tail) || string(path[:len(head)]) != head ||
		string(path[len(path)-len(tail):]) != tail {
		return false
	}
	for _, c := range path[len(head) : len(path)-len(tail)] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// quantity reads {"quantity":n} without a JSON decoder; 0 is refused.
func quantity(body []byte) int {
	const key = `"quantity":`
	for i := 0; i+len(key) < len(body); i++ {
		if body[i] != '"' || string(body[i:i+len(key)]) != key {
			continue
		}
		n := 0
		for _, c := range body[i+len(key):] {
			if c < '0' || c > '9' || n > 1000 {
				break
			}
			n = n*10 + int(c-'0')
		}
		return n
	}
	return 0
}
