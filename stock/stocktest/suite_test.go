package stocktest

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/stock"
	"seckill/stock/embedded"
)

const (
	// faultEnv makes TestBrokenStock run the suite on the fault of that name.
	faultEnv = "SECKILL_STOCKTEST_FAULT"
	// brokenPatience is short: many faults are something that never happens.
	brokenPatience = 700 * time.Millisecond
)

// A right stock passes, also one that is in memory only and has its own clock.
func TestRightStockPasses(t *testing.T) {
	Run(t, func(t *testing.T) Harness {
		return Harness{Open: func(t *testing.T) stock.Stock {
			e, err := embedded.Open(t.Context(), embedded.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}}
	})
}

// TestBrokenStock is the child of TestSuiteCatchesFaults: it has to fail. By itself it
// does nothing.
func TestBrokenStock(t *testing.T) {
	name := os.Getenv(faultEnv)
	if name == "" {
		return
	}
	f, ok := faults()[name]
	if !ok {
		t.Fatalf("no fault %q", name)
	}
	Run(t, newBroken(f))
}

var failedClaim = regexp.MustCompile(`--- FAIL: TestBrokenStock/(\w+)`)

// Each fault fails the claim that is about it, and the suite ends. And each claim is
// failed by some fault: one that nothing fails claims nothing.
func TestSuiteCatchesFaults(t *testing.T) {
	if os.Getenv(faultEnv) != "" {
		return
	}
	var mu sync.Mutex
	caught := map[string]string{}
	var g errgroup.Group
	g.SetLimit(6) // Most of them wait for what never happens.
	for name, f := range faults() {
		g.Go(func() error {
			failing := runBroken(t, name)
			mu.Lock()
			defer mu.Unlock()
			t.Logf("%s: %q", name, failing)
			for _, claim := range failing {
				caught[claim] = name
			}
			for want := range strings.FieldsSeq(f.fails) {
				if !slices.Contains(failing, want) {
					t.Errorf("%s: %s does not notice", name, want)
				}
			}
			return nil
		})
	}
	_ = g.Wait() // They return nothing.
	for _, claim := range slices.Sorted(maps.Keys(claims())) {
		if caught[claim] == "" {
			t.Errorf("no fault fails %s", claim)
		}
	}
}

// runBroken runs the suite on a fault in a process of its own, and returns the claims
// that failed.
func runBroken(t *testing.T, name string) (failing []string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenStock$", "-test.timeout=60s", "-test.v", "-rapid.checks=30", "-rapid.nofailfile", "-rapid.shrinktime=100ms")
	child.Env = append(os.Environ(), faultEnv+"="+name)
	var out bytes.Buffer
	child.Stdout, child.Stderr = &out, &out
	err := child.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		t.Errorf("%s: the suite passes: %v", name, err)
		return nil
	}
	if at := bytes.Index(out.Bytes(), []byte("panic: ")); at >= 0 {
		t.Errorf("%s: the suite hangs or panics:\n%.2000s", name, out.Bytes()[at:])
	}
	for _, m := range failedClaim.FindAllSubmatch(out.Bytes(), -1) {
		failing = append(failing, string(m[1]))
	}
	return failing
}
