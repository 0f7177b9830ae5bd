package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
)

type std struct {
	s *http.Server
	h *hub
}

func newStd(h *hub) *std {
	e := &std{h: h}
	e.s = &http.Server{Handler: e, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 4 << 10}
	return e
}

func (e *std) serve(ln net.Listener) error { return e.s.Serve(ln) }

func (e *std) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	return e.s.Shutdown(ctx)
}

var problemLength = strconv.Itoa(len(problem))

func (e *std) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	if leaving.Load() {
		head.Set("Connection", "close")
	}
	switch {
	case r.Method == http.MethodPost && isPurchase([]byte(r.URL.Path)):
		var buf [512]byte
		n, err := io.ReadFull(r.Body, buf[:])
		if err != io.ErrUnexpectedEOF || quantity(buf[:n]) < 1 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		head.Set("Content-Type", "application/problem+json")
		head.Set("Content-Length", problemLength)
		head.Set("Cache-Control", "no-store")
		head.Set("Content-Language", "en")
		w.WriteHeader(http.StatusGone)
		_, _ = w.Write(problem)
	case r.Method == http.MethodGet && r.URL.Path == "/events":
		head.Set("Content-Type", "text/event-stream")
		head.Set("Cache-Control", "no-cache")
		head.Set("Connection", "close")
		flush := w.(http.Flusher).Flush
		_, _ = io.WriteString(w, firstEvent)
		flush()
		select {
		case <-e.h.done:
			_, _ = io.WriteString(w, lastEvent)
			flush()
		case <-r.Context().Done():
		}
	case r.Method == http.MethodPost && r.URL.Path == "/fire":
		e.h.fire()
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}
