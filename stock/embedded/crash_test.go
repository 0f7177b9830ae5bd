package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill"
	"seckill/stock"
	"seckill/stock/embedded"
)

const (
	// crashPathEnv makes the test binary the process that is killed.
	crashPathEnv = "SECKILL_CRASH_PATH"
	// crashRoundsEnv sets how often one is killed.
	crashRoundsEnv = "SECKILL_CRASH_ROUNDS"

	crashUnits   = 3000
	crashCallers = 6
	crashLimit   = 3
)

var crashRun = seckill.RunID{Activity: 5, Run: 2}

func crashOptions(path string) embedded.Options {
	return embedded.Options{Path: path, CompactBytesMin: 16 << 10} // Compaction is killed too.
}

// A process that is killed at any moment has lost nothing that it acknowledged: each
// ticket is there, what was settled stays settled, the units add up and no buyer is
// over the limit. The next process goes on with the same file.
func TestKilledProcessLosesNothing(t *testing.T) {
	rounds := 5
	if s := os.Getenv(crashRoundsEnv); s != "" {
		n, err := strconv.Atoi(s)
		must(t, err)
		rounds = n
	}
	path := filepath.Join(t.TempDir(), "stock.db")
	e, err := embedded.Open(t.Context(), crashOptions(path))
	must(t, err)
	now := time.Now()
	must(t, e.Load(t.Context(), stock.Spec{
		Run: crashRun, Epoch: 1, Units: crashUnits, Limit: crashLimit, SubStocks: 1,
		StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour),
	}))
	must(t, e.Close())
	told := map[string]string{} // Line of the child, without its first word, to that.
	for round := range rounds {
		killOne(t, path, time.Duration(rand.IntN(250)+20)*time.Millisecond, told)
		t.Logf("round %d: %d acknowledged", round+1, len(told))
		checkCrashed(t, path, told)
	}
	if len(told) == 0 {
		t.Fatal("nothing was ever acknowledged")
	}
}

// killOne starts a child, lets it reserve for a while after its first word, kills it,
// and notes what it said.
func killOne(t *testing.T, path string, life time.Duration, told map[string]string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), crashPathEnv+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	var timer *time.Timer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if timer == nil {
			timer = time.AfterFunc(life, func() { _ = child.Process.Kill() })
		}
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		if verb != "ready" {
			told[verb+" "+rest] = verb
		}
	}
	var exit *exec.ExitError
	if err := child.Wait(); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the child was to be killed, but: %v", err)
	}
}

func checkCrashed(t *testing.T, path string, told map[string]string) {
	t.Helper()
	e, err := embedded.Open(t.Context(), crashOptions(path))
	must(t, err)
	defer func() { must(t, e.Close()) }()
	held := map[string]int{}
	hold := func(buyer string, quantity int) {
		if held[buyer] += quantity; held[buyer] > crashLimit {
			t.Fatalf("%s holds %d, more than %d", buyer, held[buyer], crashLimit)
		}
	}
	for line, verb := range told {
		var buyer, ticket string
		_, err := fmt.Sscanf(line, verb+" %s %s", &buyer, &ticket)
		must(t, err)
		o, err := e.Outcome(t.Context(), buyer, ticket)
		if err != nil {
			t.Fatalf("%s was acknowledged, and is lost: %v", line, err)
		}
		if verb == "paid" && (o.Order == nil || o.Order.State != seckill.Paid) {
			t.Fatalf("%s was acknowledged, and is %+v", line, o)
		}
		if verb == "taken" && o.Order != nil && o.Order.State.Live() {
			hold(buyer, o.Order.Quantity)
		}
	}
	l, err := e.Level(t.Context(), crashRun)
	must(t, err)
	if sum := l.Available + l.Queued + l.AwaitingPayment + l.Paid; sum != crashUnits || l.Available < 0 {
		t.Fatalf("there are %d units, want %d: %+v", sum, crashUnits, l)
	}
	for after := ""; ; {
		page, err := e.Queued(t.Context(), crashRun, after, 1000)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			hold(r.Buyer, r.Quantity)
		}
		after = page[len(page)-1].Ticket
	}
}

// reserveUntilKilled is the child: it says what was acknowledged, a line each, and
// only then.
func reserveUntilKilled(path string) {
	ctx := context.Background()
	e, err := embedded.Open(ctx, crashOptions(path))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	os.Stdout.WriteString("ready\n")
	failed := make(chan error)
	for caller := range crashCallers {
		go func() { failed <- crashCaller(ctx, e, caller) }()
	}
	fmt.Fprintln(os.Stderr, <-failed)
	os.Exit(3)
}

// crashCaller buys, pays for some, gives others back, for ever.
func crashCaller(ctx context.Context, e *embedded.Engine, caller int) error {
	for i := 0; ; i++ {
		buyer := fmt.Sprintf("buyer-%d-%d", caller, rand.IntN(400))
		a := seckill.Attempt{Ticket: seckill.NewTicket(crashRun), Buyer: buyer, Quantity: 1 + rand.IntN(2), Key: fmt.Sprint("key", i)}
		ds, err := e.Reserve(ctx, crashRun, 1, []seckill.Attempt{a})
		if err != nil {
			return err
		}
		if ds[0].Verdict != stock.Taken {
			continue
		}
		os.Stdout.WriteString("taken " + buyer + " " + a.Ticket + "\n")
		state := seckill.Cancelled
		if i%8 == 0 {
			state = seckill.Paid
		} else if i%8 == 1 {
			continue
		}
		s := stock.Settlement{Run: crashRun, Ticket: a.Ticket, Buyer: buyer, Order: &seckill.Order{ID: "1", State: state}}
		if _, err := e.Settle(ctx, []stock.Settlement{s}); err != nil {
			return err
		}
		if state == seckill.Paid {
			os.Stdout.WriteString("paid " + buyer + " " + a.Ticket + "\n")
		}
	}
}
