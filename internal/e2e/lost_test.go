package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// copyStock copies the stock's file, of a server that does not run, to or from another folder.
func copyStock(t *testing.T, from, to string) {
	t.Helper()
	removeAll(t, filepath.Join(to, "stock.db*"))
	files, err := filepath.Glob(filepath.Join(from, "stock.db*"))
	must(t, err)
	if len(files) == 0 {
		t.Fatalf("no stock in %s", from)
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(to, filepath.Base(name)), content, 0o600))
	}
}

func removeAll(t *testing.T, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	must(t, err)
	for _, name := range files {
		must(t, os.Remove(name))
	}
}

// buyAll lets so many buyers buy one unit each, and returns the ticket of each.
func (s *server) buyAll(activity int64, name string, buyers int) map[string]string {
	s.t.Helper()
	tickets := map[string]string{}
	for i := range buyers {
		buyer := fmt.Sprintf("%s-%d", name, i)
		a, err := s.buy(activity, buyer, "", 1)
		if err != nil || a.status != http.StatusAccepted {
			s.t.Fatalf("%s: %d %s, %v", buyer, a.status, a.body, err)
		}
		tickets[buyer] = a.str("ticket")
	}
	for buyer, ticket := range tickets {
		if final := s.final(buyer, ticket); final.str("state") != "confirmed" {
			s.t.Fatalf("%s: %s", buyer, final.body)
		}
	}
	return tickets
}

// reopened buys with a buyer as soon as the run is not held any more, and returns the answer.
func (s *server) reopened(activity int64, buyer string) (a answer) {
	s.t.Helper()
	await(s.t, "a definite answer", func() bool {
		var err error
		a, err = s.buy(activity, buyer, "", 1)
		return err == nil
	})
	return a
}

// knowsItsBuyers checks that who bought before is told so, with the ticket, and that one
// who cancels gives the unit back; then every unit is sold.
func (s *server) knowsItsBuyers(activity int64, tickets map[string]string, stock int) {
	t := s.t
	t.Helper()
	for buyer, ticket := range tickets {
		a := s.reopened(activity, buyer)
		if a.status != http.StatusConflict || a.str("reason") != "already_purchased" || a.str("ticket") != ticket {
			t.Errorf("%s bought %s before, and hears %d %s", buyer, ticket, a.status, a.body)
		}
		if final := s.final(buyer, ticket); final.str("state") != "confirmed" {
			t.Errorf("ticket %s: %s", ticket, final.body)
		}
	}
	left := int64(stock - len(tickets))
	if b := s.settled(activity); b.Available != left || b.AwaitingPayment != int64(len(tickets)) {
		t.Errorf("books %+v, want %d available", b, left)
	}
	for buyer, ticket := range tickets {
		order, _ := s.final(buyer, ticket).json["order"].(map[string]any)
		if a := s.ask("POST", fmt.Sprintf("/v1/orders/%v/cancel", order["id"]), buyer, ""); a.status != http.StatusOK {
			t.Errorf("cancel: %d %s", a.status, a.body)
		}
		break
	}
	if b := s.settled(activity); b.Available != left+1 {
		t.Errorf("books %+v after a cancellation, want %d available", b, left+1)
	}
	s.buyAll(activity, "new", int(left+1))
	if a := s.reopened(activity, "too-late"); a.str("reason") != "sold_out" {
		t.Errorf("the last one hears %d %s", a.status, a.body)
	}
	report := s.operate("POST", fmt.Sprintf("/admin/v1/activities/%d/reconcile", activity), `{"repair":true}`)
	if findings, _ := report.json["findings"].([]any); len(findings) != 0 || report.json["balanced"] != true {
		t.Errorf("reconciled: %s", report.body)
	}
}

// A stock that comes back as it was some purchases ago, under the same epoch, is rebuilt from
// the database before anybody can buy.
func TestOlderStockIsRebuilt(t *testing.T) {
	t.Parallel()
	s := serve(t)
	activity := s.activity(20, -time.Second, "")
	tickets := s.buyAll(activity, "early", 3)
	s.kill()
	older := t.TempDir()
	copyStock(t, s.data, older)
	s.start()
	maps.Copy(tickets, s.buyAll(activity, "late", 5))
	s.kill()
	copyStock(t, older, s.data)
	s.start()
	s.knowsItsBuyers(activity, tickets, 20)
}

// A stock that is gone is rebuilt with its buyers.
func TestLostStockIsRebuilt(t *testing.T) {
	t.Parallel()
	s := serve(t)
	activity := s.activity(10, -time.Second, "")
	tickets := s.buyAll(activity, "early", 6)
	s.kill()
	removeAll(t, filepath.Join(s.data, "stock.db*"))
	s.start()
	s.knowsItsBuyers(activity, tickets, 10)
}

// A stock whose database is gone is not sold from: its reservations are of other activities
// than those that a new database will number alike. The start fails, and says what to do;
// when that is done it succeeds.
func TestStockOfALostDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.buyAll(s.activity(10, -time.Second, ""), "early", 3)
	s.kill()
	removeAll(t, filepath.Join(s.data, "seckill.db*"))
	for range 2 { // The refused start has made a new database.
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		refused := exec.CommandContext(ctx, binary, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data", s.data, "--auth", "open", "--admin-token", "x")
		out, err := refused.CombinedOutput()
		cancel()
		if err == nil || refused.ProcessState.ExitCode() != 1 {
			t.Fatalf("a stock of another database: %v %s, want exit status 1", err, out)
		}
		for _, want := range []string{"belongs to another database", "restore the database", "move " + filepath.Join(s.data, "stock.db") + " away", "lost"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("does not say %q: %s", want, out)
			}
		}
		if lines := strings.Count("\n"+string(out), "\nseckill: "); lines != 1 {
			t.Errorf("says it in %d lines: %s", lines, out)
		}
	}
	removeAll(t, filepath.Join(s.data, "stock.db*"))
	s.start()
	s.buyAll(s.activity(2, -time.Second, ""), "new", 2)
}
