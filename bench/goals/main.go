// Command goals measures goals of docs/benchmarks.md again and prints them as tables:
//
//	go run ./bench/goals [flags] [p1|p2|p6|p7|p8|p9|p10|p11]
//
// It starts everything that it measures as processes of their own, in a temporary folder
// that is removed at the end, and compares only what ran in the same round. It writes
// nothing anywhere else, and nothing else uses it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// settings are what the command line says.
type settings struct {
	seckill  string
	work     string
	rounds   int
	duration time.Duration
	buyers   int
	profiles string
	only     string
	auth     string
	cold     bool
	forged   int
	waiting  int
	curve    string
	callers  int
	share    int

	processors int
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "reference" {
		exit(reference(os.Args[2:]))
	}
	var s settings
	flag.StringVar(&s.seckill, "seckill", "", "the program to measure (default: built from this checkout)")
	flag.IntVar(&s.rounds, "rounds", 5, "rounds; the median counts")
	flag.DurationVar(&s.duration, "duration", 5*time.Second, "p1, p2, p6, p7, p9: of each measurement")
	flag.IntVar(&s.buyers, "buyers", 4000, "p1: buyers, each with a token of his own")
	flag.IntVar(&s.processors, "processors", 1, "p1, p2: processors that the server may use at once; nginx has one worker")
	flag.StringVar(&s.profiles, "profiles", "", "p1, p2, p6, p9: a folder for CPU profiles, taken in a round of their own")
	flag.StringVar(&s.only, "only", "", "p1: one row, such as already_purchased (default all)")
	flag.StringVar(&s.auth, "auth", "jwt", "p2, p6, p7, p9: how buyers say who they are, jwt or open")
	flag.BoolVar(&s.cold, "cold", false, "p11: also with empty caches, which downloads the modules and the toolchain")
	flag.IntVar(&s.forged, "forged", 10_000_000, "p10: forged buyers, each from an address of his own")
	flag.IntVar(&s.waiting, "waiting", 20_000, "p8: buyers who wait on streams of events")
	flag.StringVar(&s.curve, "curve", "", "p6: processors or stock, whichever is the limit (default both)")
	flag.IntVar(&s.callers, "callers", 0, "p6: requests under way at most in the open loop (default 1024)")
	flag.IntVar(&s.share, "share", 40, "p6: the gateway's part of the stock's Redis, KB/s each way; 40 are about 450 purchases a second")
	flag.Parse()
	goals := map[string]func(context.Context, *settings) error{"": all, "p1": p1, "p2": p2, "p6": p6, "p7": p7, "p8": p8, "p9": p9, "p10": p10, "p11": p11}
	goal, ok := goals[flag.Arg(0)]
	if !ok || flag.NArg() > 1 || s.rounds < 1 || s.processors < 1 || s.share < 1 || s.auth != "jwt" && s.auth != "open" {
		fmt.Fprintln(os.Stderr, "usage: goals [flags] [p1|p2|p6|p7|p8|p9|p10|p11]")
		flag.PrintDefaults()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(measure(ctx, &s, goal))
}

func all(ctx context.Context, s *settings) error {
	return errors.Join(p1(ctx, s), p2(ctx, s), p6(ctx, s), p7(ctx, s), p8(ctx, s), p9(ctx, s), p10(ctx, s), p11(ctx, s))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "goals:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// measure gives a goal its folder and its program.
func measure(ctx context.Context, s *settings, goal func(context.Context, *settings) error) (err error) {
	if s.work, err = os.MkdirTemp("", "seckill-goals-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.work)) }()
	if s.profiles != "" {
		if err := os.MkdirAll(s.profiles, 0o755); err != nil {
			return err
		}
	}
	if s.seckill == "" {
		s.seckill = filepath.Join(s.work, "seckill")
		if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", s.seckill, "seckill/cmd/seckill").CombinedOutput(); err != nil {
			return fmt.Errorf("build the program: %w\n%s", err, out)
		}
	}
	if s.seckill, err = filepath.Abs(s.seckill); err != nil {
		return err
	}
	fmt.Printf("%s\n\n", machine(s.work))
	return goal(ctx, s)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// against divides each value by the one of the same round.
func against(v, base []float64) []float64 {
	ratios := make([]float64, 0, len(v))
	for i := range min(len(v), len(base)) {
		ratios = append(ratios, v[i]/base[i])
	}
	return ratios
}

// spread is the least and the greatest.
func spread(format string, v []float64) string {
	if len(v) == 0 {
		return ""
	}
	return fmt.Sprintf(format+"–"+format, slices.Min(v), slices.Max(v))
}
