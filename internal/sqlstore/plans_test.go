package sqlstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill"
	"seckill/internal/testenv"
)

const (
	crowdOrders = 20_000 // In each run of a crowd.
	crowdBatch  = 800    // Orders that were written together, and so have one pay_before; a page ends amid some.
)

// crowd makes three runs full of orders in a MariaDB. A fifth of the first are unpaid, and due; 3 in 10 are
// paid, and half have ended. All of the second are unpaid, and none is due. All of the third have ended.
func (p *place) crowd(t *testing.T) (runs [3]seckill.RunID) {
	t.Helper()
	for i, state := range []string{"SUBSTR('1122233444', seq % 10 + 1, 1)", "1", "seq % 2 + 3"} {
		run := p.sale(t, crowdOrders, time.Hour)
		start := time.Now().Add(time.Duration(2*i-1) * time.Hour)
		for first := 1; first < crowdOrders; first += crowdBatch {
			p.raw(t, fmt.Sprintf(`INSERT INTO seckill_order (id, activity_id, user_id, status, create_time, run, ticket, slot, quantity,
				amount_cents, pay_before, update_time)
				SELECT seq + %d, %d, seq, %s, ?, 1, CONCAT(%d, '-1-', seq), 1, 1, 1, ?, ? FROM seq_%d_to_%d`,
				i*crowdOrders, run.Activity, state, run.Activity, first, first+crowdBatch-1),
				at(start), at(start.Add(time.Duration(first)*time.Millisecond)), at(start))
		}
		p.raw(t, "UPDATE seckill_stock SET available_stock = ? WHERE activity_id = ?", [3]int{crowdOrders / 2, 0, crowdOrders}[i], run.Activity)
		runs[i] = run
	}
	p.raw(t, "ANALYZE TABLE seckill_order")
	return runs
}

// handlerReads is how many rows and entries of indexes a MariaDB server has read.
func handlerReads(t *testing.T, server *testenv.Maria) (n int) {
	t.Helper()
	fields := strings.Fields(server.SQL(t, "SHOW GLOBAL STATUS LIKE 'Handler_read%'"))
	for i := 1; i < len(fields); i += 2 {
		some, err := strconv.Atoi(fields[i])
		must(t, err)
		n += some
	}
	return n
}

// What is asked again and again, or while a stock is lost, costs what it returns and not what there is.
func TestMariaDBReadsWhatItReturns(t *testing.T) {
	server := testenv.MariaDB(t, testenv.MariaFast...)
	p := open(t, server.URL(t), 0)
	runs := p.crowd(t)
	// costs does something and fails if the server has read too much for it.
	costs := func(what string, most int, do func() error) {
		t.Helper()
		before := handlerReads(t, server)
		must(t, do())
		got := handlerReads(t, server) - before
		t.Logf("%s: %d reads", what, got)
		if got > most {
			t.Errorf("%s: %d reads, want at most %d", what, got, most)
		}
	}
	expire := func(limit, want int) func() error {
		return func() error {
			todos, err := p.ExpireOrders(t.Context(), limit)
			equal(t, "expired", len(todos), want)
			return err
		}
	}

	after, live := "", 0
	for range crowdOrders / 2 / 1000 {
		costs("a page of live orders", 8*1000, func() error {
			page, err := p.LiveOrders(t.Context(), runs[0], after, 1000)
			equal(t, "orders of a page", len(page), 1000)
			after, live = page[len(page)-1].ID, live+len(page)
			return err
		})
	}
	costs("the page behind the last", 100, func() error {
		page, err := p.LiveOrders(t.Context(), runs[0], after, 1000)
		equal(t, "orders of the page behind the last", len(page), 0)
		return err
	})
	// An index has the units of each state, and of no other.
	costs("the units of a run", crowdOrders/2+100, func() error {
		u, err := p.Units(t.Context(), runs[0])
		equal(t, "unpaid", u.AwaitingPayment, crowdOrders/5)
		equal(t, "paid", u.Paid, crowdOrders*3/10)
		return err
	})
	costs("the repair of a run", crowdOrders/2+100, func() error {
		delta, err := p.RepairAvailable(t.Context(), runs[0], operator)
		equal(t, "repaired", delta, 0)
		return err
	})
	costs("old runs", 100, func() error {
		old, err := p.OldRuns(t.Context(), time.Now().Add(5*time.Hour), 10)
		if !slices.Equal(old, []seckill.RunID{runs[2]}) {
			t.Errorf("old runs: %v", old)
		}
		return err
	})
	costs("to expire 500 orders", 10*500, expire(500, 500))
	costs("to expire all that are due", 10*(crowdOrders/5-500), expire(crowdOrders, crowdOrders/5-500))
	costs("to expire, with nothing due", 100, expire(500, 0))
}

// A database with the indexes of before is brought up to date in the middle of a sale.
func TestMariaDBMigratesDuringASale(t *testing.T) {
	server := testenv.MariaDB(t, testenv.MariaFast...)
	p := open(t, server.UserURL(t), 0)
	want := p.indexes(t)
	p.crowd(t)
	p.raw(t, `ALTER TABLE seckill_order DROP KEY idx_state, ADD KEY idx_pay_before (status, pay_before), ADD KEY idx_run (activity_id, run),
		ADD KEY idx_run_units (activity_id, run, status, quantity)`)
	p.raw(t, "DELETE FROM seckill_schema WHERE version_id = 6")
	run := p.sale(t, 1_000_000, time.Hour)
	done := make(chan error, 1)
	go func() { done <- p.Migrate(t.Context()) }()
	written, ended := 0, false
	for ; !ended; written += 20 {
		select {
		case err := <-done:
			must(t, err)
			ended = true // And once more, with the new index.
		default:
		}
		p.mustWrite(t, run, buyers(run, written, written+20)...)
	}
	t.Logf("%d orders meanwhile", written)
	p.balanced(t, run, 1_000_000, int64(written))
	if got := p.indexes(t); !slices.Equal(got, want) {
		t.Errorf("indexes: got %q, want %q", got, want)
	}
}

// SQLite answers those questions by the index, too, and in the order in which the rows lie there: it sorts only
// what it puts together of several pieces.
func TestSQLiteReadsWhatItReturns(t *testing.T) {
	p := open(t, sqliteURL(t), 0)
	run := p.sale(t, 10, time.Hour)
	a, r, now := run.Activity, run.Run, at(time.Now())
	const covering, ofRun = "COVERING INDEX", "status=? AND activity_id=? AND run=?"
	for _, q := range []struct {
		name, query string
		args        []any
		by          []string // How it looks for orders.
		sorts       int
	}{
		{"the next run with unpaid orders", nextUnpaid, []any{a, r, a},
			[]string{covering + " (status=? AND activity_id=? AND run>?)", covering + " (status=? AND activity_id>?)"}, 2},
		{"due orders", orderColumns + dueOfRun, []any{a, r, 9}, []string{"INDEX (" + ofRun + " AND pay_before<?)"}, 0},
		{"live orders", liveOrders, []any{a, r, now, 1, 9, a, r, now, 9, a, r, now, 1, 9, a, r, now, 9, 9}, []string{
			"INDEX (" + ofRun + " AND pay_before=? AND id>?)", "INDEX (" + ofRun + " AND pay_before>?)",
			"INDEX (" + ofRun + " AND pay_before=? AND id>?)", "INDEX (" + ofRun + " AND pay_before>?)",
		}, 4},
		{"units", "SELECT " + unitsUnpaid + ", " + unitsPaid + " FROM seckill_stock s WHERE s.activity_id = ? AND s.run = ?", []any{a, r},
			[]string{covering + " (" + ofRun + ")", covering + " (" + ofRun + ")"}, 0},
	} {
		var by []string
		sorts := 0
		must(t, p.reader().rows(t.Context(), func(scan func(...any) error) error {
			var id, parent, unused int
			var step string
			err := scan(&id, &parent, &unused, &step)
			if strings.Contains(step, "TEMP B-TREE") {
				sorts++
			}
			if words := strings.Fields(step); len(words) > 1 && (words[1] == "seckill_order" || words[1] == "o") {
				_, how, _ := strings.Cut(step, " USING ")
				by = append(by, strings.Replace(how, "idx_order_state ", "", 1))
			}
			return err
		}, "EXPLAIN QUERY PLAN "+q.query, q.args...))
		if !slices.Equal(by, q.by) || sorts != q.sorts {
			t.Errorf("%s: looks by %q and sorts %d times, want %q and %d", q.name, by, sorts, q.by, q.sorts)
		}
	}
}
