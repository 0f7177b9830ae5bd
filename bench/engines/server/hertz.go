package main

import (
	"context"
	"net"

	"github.com/cloudwego/hertz/pkg/app"
	hz "github.com/cloudwego/hertz/pkg/app/server"
	"github.com/cloudwego/hertz/pkg/common/config"
	"github.com/cloudwego/hertz/pkg/common/hlog"
	"github.com/cloudwego/hertz/pkg/protocol/sse"
)

type hertz struct {
	h  *hub
	hz *hz.Hertz
}

func newHertz(h *hub) *hertz {
	hlog.SetLevel(hlog.LevelFatal)
	return &hertz{h: h}
}

func (e *hertz) serve(ln net.Listener) error {
	e.hz = hz.New(
		hz.WithListener(ln),
		hz.WithReadTimeout(readTimeout),
		hz.WithIdleTimeout(idleTimeout),
		hz.WithExitWaitTime(stopWait),
		hz.WithMaxRequestBodySize(bodyMax),
		hz.WithDisablePrintRoute(true),
		config.Option{F: func(o *config.Options) {
			o.NoDefaultServerHeader = true
			o.SenseClientDisconnection = true
		}},
	)
	e.hz.POST("/v1/activities/:id/purchases", e.purchase)
	e.hz.GET("/events", e.events)
	e.hz.POST("/fire", func(_ context.Context, _ *app.RequestContext) { e.h.fire() })
	return e.hz.Run()
}

func (e *hertz) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	return e.hz.Shutdown(ctx)
}

func (e *hertz) purchase(_ context.Context, c *app.RequestContext) {
	if leaving.Load() {
		c.SetConnectionClose()
	}
	if !isPurchase(c.Path()) || quantity(c.Request.BodyBytes()) < 1 {
		c.SetStatusCode(400)
		return
	}
	c.Response.SetStatusCode(410)
	c.Response.Header.SetContentType("application/problem+json")
	c.Response.Header.Set("Cache-Control", "no-store")
	c.Response.Header.Set("Content-Language", "en")
	c.Response.SetBodyRaw(problem)
}

func (e *hertz) events(ctx context.Context, c *app.RequestContext) {
	c.SetConnectionClose()
	w := sse.NewWriter(c)
	first, last := eventOf("1", `{"state":"queued","ahead":17}`), eventOf("2", `{"state":"confirmed","order":"o-1"}`)
	if w.Write(first) != nil {
		return
	}
	select {
	case <-e.h.done:
		_ = w.Write(last)
	case <-ctx.Done():
	}
}

func eventOf(id, data string) *sse.Event {
	ev := sse.NewEvent()
	ev.SetEvent("state")
	ev.SetID(id)
	ev.SetDataString(data)
	return ev
}
