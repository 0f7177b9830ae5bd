package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/testenv"
)

// behindNginx starts the server with the configuration of deploy/nginx in front of it.
func behindNginx(t *testing.T, args ...string) (*server, *testenv.NginxServer) {
	t.Helper()
	s := serve(t, append([]string{"--trusted-proxies", "127.0.0.1"}, args...)...)
	return s, testenv.Nginx(t, filepath.Join("..", "..", "deploy", "nginx", "seckill.conf"), map[string]string{
		"listen 80 ":                "listen LISTEN ",
		"server 127.0.0.1:8080 ":    "server " + s.listen + " ",
		"/var/cache/nginx/seckill ": filepath.Join(t.TempDir(), "cache") + " ",
	})
}

// from makes requests that come from one loopback address.
func from(t *testing.T, address string) *http.Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// clicksAtOnce sends so many purchases of different buyers together, and counts the answers by
// status.
func clicksAtOnce(t *testing.T, client *http.Client, addr string, activity int64, n int, header map[string]string) map[int]int {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	counts := map[int]int{}
	for range n {
		all.Go(func() {
			req, _ := http.NewRequestWithContext(t.Context(), "POST", fmt.Sprintf("http://%s/v1/activities/%d/purchases", addr, activity), nil)
			req.Header.Set("X-User-Id", newBuyer())
			for k, v := range header {
				req.Header.Set(k, v)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			counts[resp.StatusCode]++
			if resp.StatusCode == 429 && (resp.Header.Get("Retry-After") == "" || !strings.Contains(resp.Header.Get("Content-Type"), "problem+json")) {
				t.Errorf("a 429 with %v", resp.Header)
			}
		})
	}
	all.Wait()
	return counts
}

// Twelve clicks at once from one address are within nginx's burst; of sixty the excess is
// refused, in the form that the server itself uses.
func TestNginxLimitsByAddress(t *testing.T) {
	t.Parallel()
	s, nginx := behindNginx(t)
	activity := s.activity(1000, -time.Second, "")
	if got := clicksAtOnce(t, from(t, "127.0.0.2"), nginx.Addr, activity, 12, nil); got[202] != 12 {
		t.Errorf("12 at once: %v, want 12 accepted", got)
	}
	if got := clicksAtOnce(t, from(t, "127.0.0.3"), nginx.Addr, activity, 60, nil); got[202] < 20 || got[429] < 10 || got[202]+got[429] != 60 {
		t.Errorf("60 at once: %v, want about 21 accepted and the rest too fast", got)
	}
	if got := clicksAtOnce(t, from(t, "127.0.0.4"), nginx.Addr, activity, 5, nil); got[202] != 5 {
		t.Errorf("another address: %v, want 5 accepted", got)
	}
}

// The server's own limit counts the buyer's address and not that of nginx, and what a buyer says of
// where he comes from changes nothing.
func TestNginxHandsOnTheTrueAddress(t *testing.T) {
	t.Parallel()
	s, nginx := behindNginx(t, "--limit-ip", "0.001/s:5")
	activity := s.activity(1000, -time.Second, "")
	for i := range 3 {
		forged := map[string]string{"X-Forwarded-For": "198.51.100." + fmt.Sprint(i), "Forwarded": "for=198.51.100." + fmt.Sprint(i)}
		clicksAtOnce(t, from(t, "127.0.0.2"), nginx.Addr, activity, 3, forged)
	}
	if got := clicksAtOnce(t, from(t, "127.0.0.2"), nginx.Addr, activity, 4, nil); got[429] != 4 {
		t.Errorf("after 9 clicks from one address: %v, want too fast", got)
	}
	if got := clicksAtOnce(t, from(t, "127.0.0.3"), nginx.Addr, activity, 4, nil); got[202] != 4 {
		t.Errorf("another address: %v, want accepted", got)
	}
}

// News of a ticket come through nginx when they happen, not when the stream ends.
func TestNginxStreamsUnbuffered(t *testing.T) {
	t.Parallel()
	s, nginx := behindNginx(t)
	activity := s.activity(10, -time.Second, "")
	if a := s.operate("PUT", "/admin/v1/switches/consumers", `{"value":false,"reason":"test"}`); a.status != 200 {
		t.Fatalf("switch: %d %s", a.status, a.body)
	}
	a, err := s.buy(activity, "me", "", 1)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+nginx.Addr+"/v1/tickets/"+a.str("ticket")+"/events", nil)
	req.Header.Set("X-User-Id", "me")
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	next := func(state string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), `"state":"`+state+`"`) {
				return
			}
		}
		t.Fatalf("the stream ended before %s: %v", state, lines.Err())
	}
	next("queued") // The stream goes on: nothing has been written yet.
	if a := s.operate("PUT", "/admin/v1/switches/consumers", `{"value":true,"reason":"test"}`); a.status != 200 {
		t.Fatalf("switch: %d %s", a.status, a.body)
	}
	next("confirmed")
}

// A server that dies is "busy" to buyers, at once and in the usual form, and no storm of 502; when it is
// back it is used again within seconds.
func TestNginxWithoutServer(t *testing.T) {
	t.Parallel()
	s, nginx := behindNginx(t)
	activity := s.activity(100, -time.Second, "")
	s.kill()
	for range 20 {
		a, err := s.call("GET", fmt.Sprintf("http://%s/v1/orders", nginx.Addr), "me", nil, "")
		must(t, err)
		if a.status != 503 || a.str("reason") != "busy" || a.header.Get("Retry-After") == "" {
			t.Fatalf("without a server: %d %s", a.status, a.body)
		}
	}
	s.start()
	await(t, "nginx to use the server again", func() bool {
		a, err := s.call("POST", fmt.Sprintf("http://%s/v1/activities/%d/purchases", nginx.Addr, activity), newBuyer(), nil, "")
		return err == nil && a.status == 202
	})
}
