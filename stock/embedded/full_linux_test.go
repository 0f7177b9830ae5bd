package embedded

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"seckill"
	"seckill/stock"
)

// A disk that is really full stops the sale, loses nothing that was acknowledged, and
// the sale goes on once there is room. Only root can make such a disk; for others
// the fault is injected, in TestBrokenLogAcknowledgesNothingAndRecovers.
func TestFullDiskStopsTheSaleUntilThereIsRoom(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		if os.Getenv("SECKILL_TEST_REQUIRE") == "1" {
			t.Fatalf("root may not mount a small disk here, and the tests are to be complete: %v", err)
		}
		t.Logf("not in a container without rights: %v", err)
		return
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	path := filepath.Join(dir, "stock.db")
	e, err := Open(t.Context(), Options{Path: path})
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	must(t, e.Load(t.Context(), testSpec(run1, 1<<30, 1)))
	ballast := filepath.Join(dir, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 512<<10), 0o600))

	acknowledged := map[string]string{}
	buy := func(n int) error {
		attempts := make([]seckill.Attempt, n)
		for i := range attempts {
			attempts[i] = attempt(run1, "b"+strings.TrimPrefix(seckill.NewTicket(run1), "1-1-"), "key")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ds, err := e.Reserve(ctx, run1, 1, attempts)
		for i, d := range ds {
			if d.Verdict != stock.Taken {
				t.Fatalf("got %+v", d)
			}
			acknowledged[d.Ticket] = attempts[i].Buyer
		}
		return err
	}
	for deadline := time.Now().Add(30 * time.Second); !e.broken(); _ = buy(100) {
		if time.Now().After(deadline) {
			t.Fatal("the disk does not fill up")
		}
	}
	before := len(acknowledged)
	if err := buy(1); err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("on a full disk: got %v", err)
	}
	must(t, os.Remove(ballast))
	awaitTrue(t, func() bool { return buy(1) == nil })
	t.Logf("%d acknowledged before, %d in all", before, len(acknowledged))
	must(t, e.Close())
	again, err := Open(t.Context(), Options{Path: path})
	must(t, err)
	defer func() { must(t, again.Close()) }()
	for ticket, buyer := range acknowledged {
		if _, err := again.Outcome(t.Context(), buyer, ticket); err != nil {
			t.Fatalf("%s was acknowledged, and is lost: %v", ticket, err)
		}
	}
}
