package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"seckill"
)

// feed gives what consoles show, once a second.
type feed interface {
	// Watch refuses who is one too many. next gives each sample once, and leaves out those
	// that the caller was too slow for; stop has to be called.
	Watch() (next func(ctx context.Context) (id int64, event []byte, err error), stop func(), err error)
}

const (
	// liveRetry is when a browser comes again, in milliseconds, after a stream has ended.
	liveRetry = 2000
	// liveWithin bounds what a console may take to read an event. One that does not read is let go.
	liveWithin = 10 * time.Second
	// liveChecked is how often it is looked at whether a stream's session still lives.
	liveChecked = 5 * time.Second
)

// live sends what the feed gives until the caller goes, its session ends, or the server does.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", "text/event-stream")
		return // It has no end to wait for.
	}
	next, stop, err := s.o.Live.Watch()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer stop()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	to := http.NewResponseController(w)
	// The connection may go on to other requests, which the stream's deadline is not for.
	defer func() { _ = to.SetWriteDeadline(time.Time{}) }() // Where there are none, none can be moved.
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	preface := fmt.Sprintf("retry: %d\n\n", liveRetry)
	checked := time.Now()
	for {
		id, event, err := next(ctx)
		if err != nil {
			return
		}
		if now := time.Now(); now.Sub(checked) >= liveChecked {
			if checked = now; !s.stillAllowed(ctx, callerOf(r)) {
				return
			}
		}
		_ = to.SetWriteDeadline(time.Now().Add(liveWithin))
		_, err = fmt.Fprintf(w, "%sid: %d\nevent: live\ndata: %s\n\n", preface, id, event)
		if err != nil || to.Flush() != nil {
			return // The caller has gone, or does not read.
		}
		preface = ""
	}
}

// stillAllowed tells whether who watches may go on. Who watches uses a session.
func (s *Server) stillAllowed(ctx context.Context, c caller) bool {
	if c.session == "" {
		return true
	}
	session, err := s.o.Accounts.Session(ctx, c.session)
	return err == nil && session.Role.May(seckill.RoleViewer)
}

// EndStreams ends the streams that are open, and those to come: what is to be told to
// [http.Server.RegisterOnShutdown], which waits for requests.
func (s *Server) EndStreams() { s.endStreams() }
