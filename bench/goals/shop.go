package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"seckill"
	"seckill/client"
)

const (
	adminToken = "token-of-the-measurement"
	jwtSecret  = "secret-of-the-measurement"
)

// shop is a running `seckill serve`.
type shop struct {
	*process
	public, admin string // host:port
	operator      *client.Admin
}

// openShop starts the program without rate limits on a data folder.
func openShop(ctx context.Context, s *settings, data, auth string, more ...string) (*shop, error) {
	public, admin, err := freeAddrs()
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"serve", "--listen", public, "--admin-listen", admin, "--data", data, "--auth", authSpec(auth),
		"--admin-token", adminToken, "--limit-ip", "off", "--limit-user", "off", "--limit-device", "off",
		"--backlog-high", "1000000000", "--backlog-low", "1000000000", "--log-level", "warn",
	}, more...)
	p, err := start(ctx, answers("http://"+admin+"/readyz"), s.seckill, args...)
	if err != nil {
		return nil, err
	}
	operator, err := client.NewAdmin(client.Options{Server: "http://" + admin, Token: adminToken})
	if err != nil {
		p.stop()
		return nil, err
	}
	return &shop{process: p, public: public, admin: admin, operator: operator}, nil
}

// authSpec is the setting --auth of the program and of its load generator.
func authSpec(auth string) string {
	if auth == "jwt" {
		return "jwt:hs256:" + jwtSecret
	}
	return auth
}

// sale creates an activity.
func (s *shop) sale(ctx context.Context, name string, units int64, starts time.Time) (int64, error) {
	a, err := s.operator.CreateActivity(ctx, client.NewActivity{
		Name: name, Stock: units, PriceCents: 9900, StartsAt: starts.UTC().Truncate(time.Millisecond),
		EndsAt: starts.Add(24 * time.Hour).UTC().Truncate(time.Millisecond),
	})
	return a.ID, err
}

// listedSale is sale for the buyers that identities makes, and no others.
func (s *shop) listedSale(ctx context.Context, name string, units int64, starts time.Time) (int64, error) {
	a, err := s.operator.CreateActivity(ctx, client.NewActivity{
		Name: name, Stock: units, PriceCents: 9900, StartsAt: starts.UTC().Truncate(time.Millisecond),
		EndsAt: starts.Add(24 * time.Hour).UTC().Truncate(time.Millisecond), Audience: seckill.AudienceListed,
	})
	if err != nil {
		return 0, err
	}
	buyers := make([]string, listedMost)
	for i := range buyers {
		buyers[i] = buyerID(i)
	}
	return a.ID, s.operator.SetAudience(ctx, a.ID, buyers)
}

// listedMost is how many buyers are on a list: more than come.
const listedMost = 100_000

// buyerID names one of the buyers that identities makes.
func buyerID(i int) string { return fmt.Sprintf("buyer-%08d", i) }

// counters are what the program has counted of its purchases.
type counters struct {
	outcomes map[string]float64
	asked    float64 // Attempts that reached the stock.
	silences float64 // How often the circuit breaker opened.
}

var (
	outcomeLine = regexp.MustCompile(`(?m)^seckill_purchases_total\{outcome="(\w+)"\} (\S+)$`)
	silentLine  = regexp.MustCompile(`(?m)^seckill_stock_silences_total (\S+)$`)
	askedLine   = regexp.MustCompile(`(?m)^seckill_purchase_duration_seconds_count (\S+)$`)
)

// metrics is what the program tells Prometheus.
func (s *shop) metrics() ([]byte, error) {
	res, err := http.Get("http://" + s.admin + "/metrics")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

func (s *shop) counters() (c counters, err error) {
	text, err := s.metrics()
	if err != nil {
		return c, err
	}
	c.outcomes = map[string]float64{}
	for _, m := range outcomeLine.FindAllSubmatch(text, -1) {
		c.outcomes[string(m[1])], _ = strconv.ParseFloat(string(m[2]), 64)
	}
	m := askedLine.FindSubmatch(text)
	if m == nil {
		return c, errors.New("/metrics does not say how many purchases reached the stock")
	}
	if m := silentLine.FindSubmatch(text); m != nil {
		c.silences, _ = strconv.ParseFloat(string(m[1]), 64)
	}
	c.asked, err = strconv.ParseFloat(string(m[1]), 64)
	return c, err
}

// profile keeps a CPU profile of the next seconds in a file.
func (s *shop) profile(file string, d time.Duration) error {
	req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", s.admin, max(1, int(d.Seconds()))), http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s: %w", res.Status, err)
	}
	return os.WriteFile(file, b, 0o600)
}

// identities writes a file with the header value of each of n buyers, one a line, and returns
// the header's name. The first of them has the number from.
func identities(s *settings, auth string, from, n int) (file, header string, err error) {
	file = filepath.Join(s.work, "buyers-"+auth)
	header = "X-User-Id"
	var text []byte
	now := time.Now()
	for i := range n {
		buyer := buyerID(from + i)
		if auth == "jwt" {
			header = "Authorization"
			claims := jwt.RegisteredClaims{Subject: buyer, IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(24 * time.Hour))}
			token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(jwtSecret))
			if err != nil {
				return "", "", err
			}
			buyer = "Bearer " + token
		}
		text = append(append(text, buyer...), '\n')
	}
	return file, header, os.WriteFile(file, text, 0o600)
}
