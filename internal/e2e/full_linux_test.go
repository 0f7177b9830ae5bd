package e2e

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"seckill/internal/testenv"
)

// smallDisk mounts a disk of some size. Only root can; where tests have to be complete a machine that
// does not let it is a failure.
func smallDisk(t *testing.T, size string) (dir string, ok bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		return "", false
	}
	dir, err := os.MkdirTemp("", "full") //nolint:usetesting // The path of a socket in it has to stay under 108 bytes.
	must(t, err)
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		if os.Getenv("SECKILL_TEST_REQUIRE") == "1" {
			t.Fatalf("root may not mount a small disk here, and the tests are to be complete: %v", err)
		}
		t.Logf("not in a container without rights: %v", err)
		return "", false
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir, true
}

// fill takes all room that is left on a disk, and returns how to give it back.
func fill(t *testing.T, dir string) (empty func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	file, err := os.Create(name)
	must(t, err)
	for size := 1 << 20; size >= 512; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	must(t, file.Close())
	return func() { _ = os.Remove(name) }
}

// MariaDB's disk is full in the middle of a sale: buyers buy on, and when there is room again each of
// their reservations becomes one order, also if the server gave up meanwhile.
func TestGrownDatabaseDiskFull(t *testing.T) {
	disk, ok := smallDisk(t, "320m")
	if !ok {
		return
	}
	t.Setenv("TMPDIR", disk)
	maria := testenv.MariaDB(t)
	t.Setenv("TMPDIR", "")
	g := growBy(t, maria, maria.UserURL(t), testenv.Redis(t).URL())
	const stock, buyers = 1500, 1600
	c := g.crowdTo(g.opened(stock, `,"sub_stocks":4`), buyers, 6*time.Second)
	c.sold(50)
	empty := fill(t, disk)
	c.sold(stock - 100)
	waiting := 0
	if !maria.Ended() {
		waiting = c.count() - len(g.rows(c.activity))
	}
	t.Logf("with a full disk %d tickets have no order; the server gave up: %v", waiting, maria.Ended())
	if waiting <= 0 && !maria.Ended() {
		t.Error("the disk was not full enough: every ticket has an order")
	}
	empty()
	if maria.Ended() {
		maria.Start(t)
	}
	over := time.Now()
	c.soldTo(t, stock)
	within(t, 60*time.Second, over)
}

// clickAll lets so many new buyers click once each, and returns their tickets.
func (s *server) clickAll(activity int64, buyers int) map[string]string {
	s.t.Helper()
	tickets := map[string]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range buyers {
		all.Go(func() {
			buyer := newBuyer()
			a, err := s.buy(activity, buyer, "", 1)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || a.status != http.StatusAccepted {
				s.t.Errorf("%s: %d %s, %v", buyer, a.status, a.body, err)
				return
			}
			tickets[buyer] = a.str("ticket")
		})
	}
	all.Wait()
	return tickets
}

// The same with SQLite in one process: the stock is on another disk, and sells on.
func TestSQLiteDiskFull(t *testing.T) {
	disk, ok := smallDisk(t, "24m")
	if !ok {
		return
	}
	s := serve(t, "--database", "sqlite:"+filepath.Join(disk, "seckill.db"))
	const stock = 3000
	activity := s.activity(stock, -time.Second, "")
	tickets := s.buyAll(activity, "early", 20)
	empty := fill(t, disk)
	accepted := s.clickAll(activity, stock-20)
	if len(accepted) != stock-20 {
		t.Errorf("%d of %d bought while the database's disk was full", len(accepted), stock-20)
	}
	if b := s.books(activity); b.Queued == 0 {
		t.Errorf("the disk was not full enough: %+v", b)
	}
	empty()
	maps.Copy(tickets, accepted)
	for buyer, ticket := range tickets {
		if final := s.final(buyer, ticket); final.str("state") != "confirmed" {
			t.Fatalf("ticket %s: %s", ticket, final.body)
		}
	}
	if b := s.settled(activity); b.AwaitingPayment != stock || b.Available != 0 || b.Dead != 0 {
		t.Errorf("books %+v, want all %d sold", b, stock)
	}
}
