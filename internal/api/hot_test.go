package api

import (
	"bufio"
	"bytes"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/valyala/fasthttp"

	"seckill"
	"seckill/internal/auth"
	"seckill/stock"
)

// hot makes a door, and one request to it that needs no stock, ready to be handled again and again.
func hot(tb testing.TB, prepare func(a *seckill.Activity), verdict stock.Verdict) (s *Server, ctx *fasthttp.RequestCtx) {
	tb.Helper()
	w := &world{list: []*seckill.Activity{sale(1)}}
	prepare(w.list[0])
	w.reserve = func(*seckill.Activity, seckill.Attempt) (stock.Decision, error) {
		return stock.Decision{Verdict: verdict, Ticket: testTicket}, nil
	}
	authenticator, err := auth.HS256("secret", auth.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	o := bare(w)
	o.Auth = authenticator
	s, err = New(o)
	if err != nil {
		tb.Fatal(err)
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Subject: "550e8400-e29b-41d4-a716-446655440000", ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour)), Issuer: "https://shop.example.com",
	}).SignedString([]byte("secret"))
	if err != nil {
		tb.Fatal(err)
	}
	raw := "POST /v1/activities/1/purchases HTTP/1.1\r\nHost: sale.example.com\r\nAuthorization: Bearer " + token +
		"\r\nContent-Type: application/json\r\nUser-Agent: Mozilla/5.0\r\nAccept-Language: zh-CN,zh;q=0.9,en;q=0.8\r\nContent-Length: 14\r\n\r\n{\"quantity\":1}"
	ctx = &fasthttp.RequestCtx{}
	ctx.Init2(nowhere{}, quiet{}, false)
	if err := ctx.Request.Read(bufio.NewReader(bytes.NewBufferString(raw))); err != nil {
		tb.Fatal(err)
	}
	s.handle(ctx) // The first one may ask the stock, and verifies the token.
	return s, ctx
}

// nowhere is the other end of a connection that is not there.
type nowhere struct{ net.Conn }

var nobody = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}

func (nowhere) RemoteAddr() net.Addr { return nobody }
func (nowhere) LocalAddr() net.Addr  { return nobody }

var hotCases = []struct {
	name    string
	prepare func(a *seckill.Activity)
	verdict stock.Verdict
	reason  seckill.Reason
}{
	{"SoldOut", func(*seckill.Activity) {}, stock.Short, seckill.SoldOut},
	{"AlreadyPurchased", func(*seckill.Activity) {}, stock.OverLimit, seckill.AlreadyPurchased},
	{"NotStarted", func(a *seckill.Activity) { a.StartsAt = time.Now().Add(time.Hour) }, stock.Short, seckill.NotStarted},
	{"Ended", func(a *seckill.Activity) { a.EndsAt = time.Now() }, stock.Short, seckill.Ended},
	{"Paused", func(a *seckill.Activity) { a.Paused = true }, stock.Short, seckill.Paused},
}

// A refusal that needs no shared state costs no memory at all.
func TestHotRefusalsAllocateNothing(t *testing.T) {
	for _, c := range hotCases {
		s, ctx := hot(t, c.prepare, c.verdict)
		if got := ctx.Response.StatusCode(); got != c.reason.Status() {
			t.Fatalf("%s: got %d %s", c.name, got, ctx.Response.Body())
		}
		if n := testing.AllocsPerRun(200, func() {
			ctx.Response.Reset()
			s.handle(ctx)
		}); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

func BenchmarkRefusal(b *testing.B) {
	for _, c := range hotCases {
		b.Run(c.name, func(b *testing.B) {
			s, ctx := hot(b, c.prepare, c.verdict)
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				ctx.Response.Reset()
				s.handle(ctx)
			}
			// On a machine that others use as well, this says more than the time that went by.
			b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

func cpuTime(tb testing.TB) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

func BenchmarkAccepted(b *testing.B) {
	s, ctx := hot(b, func(a *seckill.Activity) { a.LimitPerUser = 1 << 30 }, stock.Taken)
	b.ReportAllocs()
	for b.Loop() {
		ctx.Response.Reset()
		s.handle(ctx)
	}
}
