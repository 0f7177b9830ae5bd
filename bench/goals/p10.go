package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"seckill/client"
)

// P10: the memory of the gateway under forged buyers. Limits and knowledge are as they are by default.
const (
	// flooders are the connections on which forged requests come.
	flooders = 64
	// honestEvery is how often an honest buyer comes, with a purchase that he has to get.
	honestEvery = 200 * time.Millisecond
	// goalP10 is how much the process may grow in the last seven tenths, as a share: by then whatever is bounded is full,
	// and what is left is how the collector of garbage breathes.
	goalP10 = 0.25
)

// p10 lets forged buyers, each of another address and name, come to one process while honest ones buy. Before that, the
// sale of the forged ones is sold out, so that each of them is refused.
func p10(ctx context.Context, s *settings) error {
	sh, err := openShop(ctx, s, filepath.Join(s.work, "p10"), "open", "--trusted-proxies", "127.0.0.1",
		"--limit-ip", "10/s:20", "--limit-user", "5/s:5", "--limit-device", "10/s:20")
	if err != nil {
		return err
	}
	defer sh.stop()
	now := time.Now().Add(-time.Second)
	refused, err := sh.sale(ctx, "sold out", 1, now)
	if err != nil {
		return err
	}
	honest, err := sh.sale(ctx, "honest", 1_000_000, now)
	if err != nil {
		return err
	}
	buyer, err := client.NewBuyer(client.Options{Server: "http://" + sh.public, Header: http.Header{"X-User-Id": {"first"}}})
	if err != nil {
		return err
	}
	if _, err := buyer.Purchase(ctx, refused, client.Purchase{}); err != nil {
		return err
	}
	f := &forgery{shop: sh, total: int64(s.forged), activity: refused}
	begin := time.Now()
	good, err := f.run(ctx, honest)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	c, err := sh.counters()
	if err != nil {
		return err
	}
	fmt.Printf("P10: %d requests, each of another forged buyer from another forged address and device, on %d connections, to one process with its default limits; meanwhile an honest buyer every %v. "+
		"Goal: at most %.0f %% more memory than after three tenths.\n\n", f.sent.Load(), flooders, honestEvery, 100*goalP10)
	fmt.Println("| forged requests | RSS MiB |")
	fmt.Println("| --- | --- |")
	for i, rss := range f.rss {
		fmt.Printf("| %d | %.1f |\n", int64(i)*f.total/10, rss)
	}
	grown := slices.Max(f.rss[4:])/f.rss[3] - 1
	fmt.Printf("\nAfter three tenths it grew by at most %.0f %%: %s. %.0f requests/s. Outcomes: %s. Honest buyers: %d of %d got their unit, p50 %.1f ms, p99 %.1f ms.\n\n",
		100*grown, met(grown <= goalP10), float64(f.total)/took.Seconds(), outcomesText(c), good.served, good.asked, good.at(0.5), good.at(0.99))
	if good.served != good.asked {
		return errors.New("honest buyers were turned away")
	}
	return nil
}

func outcomesText(c counters) string {
	var parts []string
	for outcome, n := range c.outcomes {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %.0f", outcome, n))
		}
	}
	return strings.Join(parts, ", ")
}

// forgery is the flood.
type forgery struct {
	shop     *shop
	total    int64
	activity int64
	next     atomic.Int64
	sent     atomic.Int64

	mu  sync.Mutex
	rss []float64 // At each tenth, from none on.
}

func (f *forgery) run(ctx context.Context, honest int64) (good honesty, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := f.measure(); err != nil {
		return good, err
	}
	failed := make(chan error, flooders)
	var all sync.WaitGroup
	for range flooders {
		all.Go(func() {
			if err := f.flood(ctx); err != nil {
				failed <- err
				cancel()
			}
		})
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	tick := time.NewTicker(honestEvery)
	defer tick.Stop()
	for {
		select {
		case <-over:
			close(failed)
			for e := range failed {
				err = errors.Join(err, e)
			}
			return good, err
		case <-tick.C:
			good.buy(ctx, f.shop, honest)
		}
	}
}

// measure notes how much memory the process has.
func (f *forgery) measure() error {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.shop.pid))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	kib, err := strconv.ParseFloat(strings.Fields(rest + " x")[0], 64)
	if err != nil {
		return fmt.Errorf("read VmRSS: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rss = append(f.rss, kib/1024)
	return nil
}

// flood sends requests on one connection until all are sent.
func (f *forgery) flood(ctx context.Context) error {
	conn, err := net.Dial("tcp", f.shop.public)
	if err != nil {
		return err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	var request []byte
	for ctx.Err() == nil {
		i := f.next.Add(1)
		if i > f.total {
			return nil
		}
		request = f.request(request[:0], uint32(i))
		if _, err := conn.Write(request); err != nil {
			return err
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return err
		}
		if res.StatusCode < 400 || res.StatusCode == http.StatusBadRequest || res.StatusCode == http.StatusUnauthorized {
			return fmt.Errorf("a forged request was answered %s", res.Status)
		}
		if f.sent.Add(1)%(f.total/10) == 0 {
			if err := f.measure(); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// request is one of a buyer, an address and a device that never came before. One in four addresses is of IPv6.
func (f *forgery) request(b []byte, i uint32) []byte {
	var v4 [4]byte
	binary.BigEndian.PutUint32(v4[:], i*2654435761) // An odd multiplier makes each another.
	addr := netip.AddrFrom4(v4)
	if i%4 == 0 {
		v6 := [16]byte{0x20, 0x01}
		copy(v6[4:], v4[:])
		addr = netip.AddrFrom16(v6)
	}
	b = fmt.Appendf(b, "POST /v1/activities/%d/purchases HTTP/1.1\r\nHost: shop\r\nX-User-Id: forged-%x\r\nX-Device-Id: device-%x\r\nX-Forwarded-For: ", f.activity, v4, v4)
	b = addr.AppendTo(b)
	// With a key the stock is asked, and the node remembers what it said of the buyer.
	if i%2 == 0 {
		b = fmt.Appendf(b, "\r\nIdempotency-Key: key-%x", v4)
	}
	return append(b, "\r\nContent-Length: 0\r\n\r\n"...)
}

// honesty is how honest buyers fare.
type honesty struct {
	asked, served int
	took          []float64
}

// buy is one honest buyer's purchase: he insists a little when he is told "busy", as the buyer page does.
func (h *honesty) buy(ctx context.Context, sh *shop, activity int64) {
	h.asked++
	begin := time.Now()
	b, err := client.NewBuyer(client.Options{Server: "http://" + sh.public, Header: http.Header{"X-User-Id": {fmt.Sprintf("honest-%d", h.asked)}}})
	if err != nil {
		return
	}
	if _, err := b.Purchase(ctx, activity, client.Purchase{}); err != nil {
		return
	}
	h.served++
	h.took = append(h.took, float64(time.Since(begin).Microseconds())/1000)
}

func (h *honesty) at(q float64) float64 {
	if len(h.took) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(h.took))[int(q*float64(len(h.took)-1))]
}
