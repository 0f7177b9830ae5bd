package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"seckill/internal/bench"
)

// goalP11 is the longest that the ready binary may take to be ready.
const goalP11 = time.Second

// p11 is what a newcomer waits for.
func p11(ctx context.Context, s *settings) error {
	fmt.Printf("P11: start of the ready binary to the first 200 of `/readyz`; goal: at most %v.\n\n", goalP11)
	fmt.Println("| data folder | starts | median ms | lowest–highest | goal |")
	fmt.Println("| --- | --- | --- | --- | --- |")
	if err := readiness(ctx, s); err != nil {
		return err
	}
	commit, err := output(ctx, ".", "git", "log", "-1", "--format=%h")
	if err != nil {
		return err
	}
	fmt.Printf("\nP11: `git clone` of commit %s from this disk to the first accepted purchase from `make demo`, in seconds. The demo's own wait for the start is off (`--starts-in 0s`).\n\n", commit)
	fmt.Println("| caches | run | clone | modules and toolchain | build and start, to the first purchase | in all | without downloads |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- |")
	kinds := []string{"warm", "empty GOCACHE"}
	if s.cold {
		kinds = append(kinds, "all empty")
	}
	for _, kind := range kinds {
		first, last := 0, 3 // Run 0 fills the caches, and is not shown.
		if kind != "warm" {
			first, last = 1, 1 // Minutes of compiling.
		}
		for run := first; run <= last; run++ {
			if err := firstSale(ctx, s, kind, run); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
	}
	return nil
}

const starts = 10

// readiness starts the program on new data and on data that holds a sale.
func readiness(ctx context.Context, s *settings) error {
	used := filepath.Join(s.work, "used")
	sold, err := sell(ctx, s, used)
	if err != nil {
		return err
	}
	for _, k := range []struct {
		name string
		dir  func(i int) string
	}{
		{"new", func(i int) string { return filepath.Join(s.work, fmt.Sprintf("new-%d", i)) }},
		{fmt.Sprintf("with %d orders", sold), func(int) string { return used }},
	} {
		var took []float64
		for i := range starts {
			begin := time.Now()
			sh, err := openShop(ctx, s, k.dir(i), "jwt")
			if err != nil {
				return err
			}
			took = append(took, float64(time.Since(begin).Microseconds())/1000)
			sh.stop()
		}
		fmt.Printf("| %s | %d | %.0f | %s | %s |\n", k.name, starts, median(took), spread("%.0f", took),
			met(slices.Max(took) <= float64(goalP11.Milliseconds())))
	}
	return nil
}

// sell leaves a data folder with a sale in it.
func sell(ctx context.Context, s *settings, dir string) (int64, error) {
	sh, err := openShop(ctx, s, dir, "open")
	if err != nil {
		return 0, err
	}
	defer sh.stop()
	id, err := sh.sale(ctx, "used", 20_000, time.Now().Add(-time.Second))
	if err != nil {
		return 0, err
	}
	r, err := bench.Run(ctx, bench.Options{Server: "http://" + sh.public, Activity: id, Buyers: 20_000, FollowFor: -1})
	if err != nil {
		return 0, err
	}
	st := &stall{shop: sh, activity: id}
	_, _, err = st.settle(ctx, r.Accepted)
	return r.Accepted, err
}

// firstSale plays a newcomer.
func firstSale(ctx context.Context, s *settings, kind string, run int) error {
	dir, err := os.MkdirTemp(s.work, "newcomer-")
	if err != nil {
		return err
	}
	root, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	var env []string
	if kind != "warm" {
		env = append(env, "GOCACHE="+filepath.Join(dir, "build-cache"))
	}
	if kind == "all empty" {
		env = append(env, "GOMODCACHE="+filepath.Join(dir, "modules"), "GOFLAGS=-modcacherw")
	}
	public, admin, err := freeAddrs()
	if err != nil {
		return err
	}
	begin := time.Now()
	checkout := filepath.Join(dir, "seckill")
	// --no-local, so that objects are sent as over a network.
	if _, err := output(ctx, dir, "git", "clone", "--quiet", "--no-local", root, checkout); err != nil {
		return err
	}
	cloned := time.Now()
	// With the toolchain that the Makefile asks for.
	if _, err := output(ctx, checkout, "env", append(env, "make", "--eval=modules: ; go list -deps ./cmd/seckill", "modules")...); err != nil {
		return err
	}
	downloaded := time.Now()
	demo := fmt.Sprintf("ARGS=--starts-in 0s --listen %s --admin-listen %s", public, admin)
	p, err := start(ctx, purchase(public), "env", append(env, "make", "-C", checkout, "demo", demo)...)
	if err != nil {
		return err
	}
	sold := time.Now()
	p.stop()
	if run > 0 {
		fmt.Printf("| %s | %d | %.1f | %.1f | %.1f | %.1f | %.1f |\n", kind, run, cloned.Sub(begin).Seconds(), downloaded.Sub(cloned).Seconds(),
			sold.Sub(downloaded).Seconds(), sold.Sub(begin).Seconds(), (sold.Sub(begin) - downloaded.Sub(cloned)).Seconds())
	}
	return os.RemoveAll(dir)
}

// purchase tries to buy as a visitor of the demo would.
func purchase(public string) func() error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return func() error {
		req, err := http.NewRequest(http.MethodPost, "http://"+public+"/v1/activities/1/purchases", strings.NewReader(`{"quantity":1}`))
		if err != nil {
			return err
		}
		req.Header.Set("X-User-Id", "newcomer")
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusAccepted {
			return errors.New(res.Status)
		}
		return nil
	}
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return string(bytes.TrimSpace(out)), nil
}
