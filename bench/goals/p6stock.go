package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"
)

// shareText says what stands in front of what.
func shareText(s *settings) string {
	return fmt.Sprintf("a gateway before Redis (everysec) that gets %d KB/s of it each way, by a token bucket of %v; the worker, a process of its own, goes there directly",
		s.share, throttleBurst)
}

// openShare opens a gateway that gets only its part of a stock, as if there were many of them before it. The worker
// has its own way to Redis: what it needs for orders grows with what all gateways sell, and is none of this one's part.
func openShare(ctx context.Context, s *settings, dir string) (*stall, error) {
	st, redis, err := openRedis(ctx, dir)
	if err != nil {
		return nil, err
	}
	gateway, err := st.openShare(ctx, s, dir, redis)
	if err != nil {
		st.stop()
		return nil, err
	}
	return st, gateway.await(ctx, st.open())
}

func (st *stall) openShare(ctx context.Context, s *settings, dir, redis string) (gateway *shop, err error) {
	t, err := openThrottle(redis, 1000*float64(s.share))
	if err != nil {
		return nil, err
	}
	st.close = append(st.close, t.close)
	return st.openApart(ctx, s, dir, redis, t.address())
}

// openApart opens a worker and a gateway, each a process of its own with its own way to Redis.
func (st *stall) openApart(ctx context.Context, s *settings, dir, redis, gatewaysRedis string, more ...string) (gateway *shop, err error) {
	data := filepath.Join(dir, "data")
	worker, err := openShop(ctx, s, data, s.auth, "--roles", "worker,console", "--stock", "redis://"+redis)
	if err != nil {
		return nil, err
	}
	st.pids, st.close = append(st.pids, worker.pid), append(st.close, worker.stop)
	if st.activity, err = worker.sale(ctx, "rush", unitsOnSale, time.Now().Add(-time.Second)); err != nil {
		return nil, err
	}
	if gateway, err = openShop(ctx, s, data, s.auth, append([]string{"--roles", "gateway", "--stock", "redis://" + gatewaysRedis}, more...)...); err != nil {
		return nil, err
	}
	st.pids, st.close = append(st.pids, gateway.pid), append(st.close, gateway.stop)
	st.shop = &shop{process: gateway.process, public: gateway.public, admin: gateway.admin, operator: worker.operator}
	st.public = gateway.public
	return gateway, nil
}

// open asks whether the gateway sells: it may not have heard of the activity yet.
func (st *stall) open() func() error {
	return func() error {
		res, err := http.Get("http://" + st.public + "/v1/activities/" + strconv.FormatInt(st.activity, 10))
		if err != nil {
			return err
		}
		defer res.Body.Close()
		var a struct {
			State string `json:"state"`
		}
		if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
			return err
		}
		if a.State != "open" {
			return errors.New("the activity is " + a.State)
		}
		return nil
	}
}
