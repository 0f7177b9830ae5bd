package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// chaosRounds is how often TestChaosKill kills; `make chaos` says more.
var chaosRounds = flag.Int("chaos-rounds", 3, "how often the chaos tests kill the server")

// holding is what the buyers of a chaos test were told.
type holding struct {
	mu      sync.Mutex
	tickets map[string]string // By buyer: the acknowledged ticket.
}

func (h *holding) acknowledged(t *testing.T, buyer, ticket string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before, ok := h.tickets[buyer]; ok && before != ticket {
		t.Errorf("buyer %s was given %s, and before %s", buyer, ticket, before)
	}
	h.tickets[buyer] = ticket
}

// The server is killed with SIGKILL at random moments of a rush, again and again. Every
// acknowledged ticket ends confirmed, every unit is sold in the end, nobody holds more
// than the limit, and the books balance.
func TestChaosKill(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	dice := rand.New(rand.NewPCG(seed, 1))
	for round := range *chaosRounds {
		t.Run(fmt.Sprintf("seed %d round %d", seed, round), func(t *testing.T) {
			chaosRound(t, dice)
		})
	}
}

func chaosRound(t *testing.T, dice *rand.Rand) {
	const stock, buyers = 300, 500
	s := serve(t)
	activity := s.activity(stock, -time.Second, "")
	held := &holding{tickets: map[string]string{}}
	var all sync.WaitGroup
	for range buyers {
		buyer, patience := newBuyer(), time.Duration(dice.IntN(300))*time.Millisecond
		all.Go(func() { insist(t, s, activity, buyer, patience, held) })
	}
	for range 2 {
		<-time.After(time.Duration(dice.IntN(400)) * time.Millisecond)
		s.kill()
		s.start()
	}
	all.Wait()

	b := s.settled(activity)
	if b.Available != 0 || b.AwaitingPayment != stock || b.Dead != 0 {
		t.Errorf("books %+v, want all %d units sold", b, stock)
	}
	if len(held.tickets) != stock {
		t.Errorf("%d buyers were told that they have a ticket, want %d", len(held.tickets), stock)
	}
	for buyer, ticket := range held.tickets {
		if final := s.final(buyer, ticket); final.str("state") != "confirmed" {
			t.Errorf("acknowledged ticket %s ended as %s", ticket, final.body)
		}
		orders := s.ask("GET", "/v1/orders", buyer, "")
		if list, _ := orders.json["orders"].([]any); len(list) != 1 {
			t.Errorf("buyer %s has %d orders: %s", buyer, len(list), orders.body)
		}
	}
}

// insist clicks with one key until there is a definite answer, as a buyer's page does.
func insist(t *testing.T, s *server, activity int64, buyer string, after time.Duration, held *holding) {
	<-time.After(after)
	deadline := time.Now().Add(40 * time.Second)
	for time.Now().Before(deadline) {
		a, err := s.buy(activity, buyer, "only-key", 1)
		switch {
		case err != nil:
			<-time.After(20 * time.Millisecond)
			continue
		case a.status == http.StatusAccepted:
			held.acknowledged(t, buyer, a.str("ticket"))
			return
		case a.str("reason") == "sold_out":
			return
		default:
			t.Errorf("buyer %s: %d %s", buyer, a.status, a.body)
			return
		}
	}
	t.Errorf("buyer %s never got a definite answer", buyer)
}

// SIGTERM in the middle of a rush: the process exits with 0 within 10 s, and no request that
// it took is cut off.
func TestChaosTerm(t *testing.T) {
	t.Parallel()
	for round := range max(1, *chaosRounds/2) {
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			s := serve(t)
			activity := s.activity(100000, -time.Second, "")
			held := &holding{tickets: map[string]string{}}
			stop := make(chan struct{})
			var all sync.WaitGroup
			for range 40 {
				all.Go(func() { clickUntil(t, s, activity, stop, held) })
			}
			await(t, "some purchases", func() bool {
				held.mu.Lock()
				defer held.mu.Unlock()
				return len(held.tickets) > 50
			})
			began := time.Now()
			must(t, s.cmd.Process.Signal(syscall.SIGTERM))
			err, ok := s.ended(10 * time.Second)
			close(stop)
			all.Wait()
			if !ok || err != nil {
				t.Fatalf("ended in time: %v, with %v; log:\n%s", ok, err, s.log)
			}
			t.Logf("exited after %v with %d tickets out", time.Since(began), len(held.tickets))
			s.start()
			for buyer, ticket := range held.tickets {
				if final := s.final(buyer, ticket); final.str("state") != "confirmed" {
					t.Errorf("ticket %s ended as %s", ticket, final.body)
				}
			}
			s.settled(activity)
		})
	}
}

// clickUntil buys with new buyers, each request on a connection of its own, so that a
// request was either refused a connection or has to be answered.
func clickUntil(t *testing.T, s *server, activity int64, stop chan struct{}, held *holding) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		buyer := newBuyer()
		ticket, err := rawPurchase(s.listen, activity, buyer)
		switch {
		case err == nil && ticket != "":
			held.acknowledged(t, buyer, ticket)
		case err != nil:
			t.Errorf("a request was cut off: %v", err)
			return
		default:
			return // The listener is closed.
		}
	}
}

// A second process on the same data folder is told so, and the first goes on.
func TestDataFolderHasOneOwner(t *testing.T) {
	t.Parallel()
	s := serve(t)
	other := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data", s.data, "--auth", "open", "--admin-token", "x")
	out, err := other.CombinedOutput()
	if err == nil || other.ProcessState.ExitCode() != 1 {
		t.Errorf("a second owner: %v %s, want exit status 1", err, out)
	}
	s.confirmed(s.activity(1, -time.Second, ""), "a")
}
