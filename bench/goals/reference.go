package main

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by it.
	_ "embed"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"seckill"
	"seckill/internal/api"
	"seckill/internal/auth"
	"seckill/internal/reserve"
	"seckill/internal/telemetry"
	"seckill/stock"
)

// The reference of P9 is the product's own door, gate and group commit in front of the
// least that a Redis can be asked for a purchase. It writes no orders, settles nothing, and
// knows neither idempotency keys, nor windows, nor quantities.

//go:embed reference.lua
var referenceLua string

// referenceUnits is more than a measurement can sell.
const referenceUnits = 100_000_000

// redisStock decides by one call of a script for each batch.
type redisStock struct {
	noOrders

	conns chan *redisConn // As many as there are calls at once.
	sha   string
}

func newRedisStock(address string, conns int) (*redisStock, error) {
	sum := sha1.Sum([]byte(referenceLua)) //nolint:gosec // Redis names scripts by it.
	s := &redisStock{conns: make(chan *redisConn, conns), sha: hex.EncodeToString(sum[:])}
	for range conns {
		c, err := dialRedis(address)
		if err != nil {
			return nil, err
		}
		s.conns <- c
	}
	c := <-s.conns
	defer func() { s.conns <- c }()
	if _, err := c.do("SCRIPT", "LOAD", referenceLua); err != nil {
		return nil, err
	}
	_, err := c.do("HSET", "{1}:run", "left", fmt.Sprint(referenceUnits))
	return s, err
}

// Reserve is what internal/reserve asks for.
func (s *redisStock) Reserve(_ context.Context, _ seckill.RunID, _ int64, attempts []seckill.Attempt) ([]stock.Decision, error) {
	args := make([]string, 0, 6+2*len(attempts))
	args = append(args, "EVALSHA", s.sha, "3", "{1}:run", "{1}:buyers", "{1}:taken")
	for i := range attempts {
		args = append(args, attempts[i].Buyer, attempts[i].Ticket)
	}
	c := <-s.conns
	got, err := c.do(args...)
	s.conns <- c
	if err != nil {
		return nil, err
	}
	list, _ := got.([]any)
	if len(list) < 2 {
		return nil, fmt.Errorf("the script answers %v", got)
	}
	verdicts, _ := list[0].(string)
	left, _ := list[1].(int64)
	if len(verdicts) != len(attempts) {
		return nil, fmt.Errorf("the script answers %v", got)
	}
	extra := list[2:]
	decisions := make([]stock.Decision, len(attempts))
	for i := range decisions {
		d := &decisions[i]
		d.Verdict, d.Left = stock.Verdict(verdicts[i]-'0'), left
		switch d.Verdict {
		case stock.Taken:
			d.Ticket = attempts[i].Ticket
		case stock.OverLimit:
			d.Ticket, _ = extra[0].(string)
			extra = extra[1:]
		}
	}
	return decisions, nil
}

// oneActivity is the only one that there is.
type oneActivity struct{ a seckill.Activity }

func (o *oneActivity) Activity(id int64) (*seckill.Activity, bool) { return &o.a, id == o.a.ID }
func (o *oneActivity) Activities() []*seckill.Activity             { return []*seckill.Activity{&o.a} }

func (o *oneActivity) Available(seckill.RunID) (n int64, known bool) { return 0, false }

// noOrders knows nothing, since nothing is written.
type noOrders struct{}

func (noOrders) Outcome(context.Context, string, string) (seckill.Outcome, error) {
	return seckill.Outcome{}, seckill.ErrNotFound
}
func (noOrders) Order(context.Context, string, string) (seckill.Order, error) {
	return seckill.Order{}, seckill.ErrNotFound
}
func (noOrders) Orders(context.Context, string, string, int) ([]seckill.Order, error) {
	return nil, nil
}
func (noOrders) Cancel(context.Context, string, string) (seckill.Order, error) {
	return seckill.Order{}, seckill.ErrNotFound
}
func (noOrders) Pay(context.Context, string, string, string) (seckill.Order, error) {
	return seckill.Order{}, seckill.ErrNotFound
}

// reference serves until it is told to stop.
func reference(args []string) error {
	f := flag.NewFlagSet("reference", flag.ContinueOnError)
	listen, redis, spec := f.String("listen", "", "address"), f.String("redis", "", "address"), f.String("auth", "open", "how buyers say who they are")
	flights := f.Int("flights", 2, "calls under way at once, as in internal/reserve")
	if err := f.Parse(args); err != nil {
		return err
	}
	identity, err := auth.New(*spec, auth.Options{})
	if err != nil {
		return err
	}
	decider, err := newRedisStock(*redis, *flights)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	metrics := telemetry.New("reference")
	now := time.Now()
	shop := &oneActivity{seckill.Activity{
		ID: 1, Name: "reference", Run: 1, Epoch: 1, Phase: seckill.PhaseLoaded, Total: referenceUnits, LimitPerUser: 1, SubStocks: 1,
		StartsAt: now.Add(-time.Hour), EndsAt: now.Add(24 * time.Hour), Audience: seckill.AudienceEveryone,
	}}
	door, err := api.New(api.Options{
		Activities: shop, Outcomes: noOrders{}, Desk: noOrders{}, Auth: identity, Metrics: metrics,
		Reserver: reserve.New(decider, metrics, reserve.Options{Flights: *flights}),
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- door.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(door.Shutdown(drain), <-served)
}
