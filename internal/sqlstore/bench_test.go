package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill"
	"seckill/internal/testenv"
)

// BenchmarkOrders writes orders of one hot activity, in batches of several sizes, to
// databases that flush each commit; and, on the same MariaDB, as the article's consumer
// does: one transaction per order. Compare orders/s:
//
//	go test ./internal/sqlstore -run '^$' -bench Orders -benchtime 2s
func BenchmarkOrders(b *testing.B) {
	// Room for all that is written.
	server := testenv.MariaDB(b, "--innodb-buffer-pool-size=1G")
	for _, place := range []struct {
		name string
		url  func() string
	}{
		{"sqlite", func() string { return sqliteURL(b) }},
		{"mariadb", func() string { return server.URL(b) }},
	} {
		p := open(b, place.url(), 0)
		run := p.sale(b, 1<<40, time.Hour)
		var buyer atomic.Uint32
		for _, c := range []struct{ size, writers int }{{1, 1}, {32, 1}, {200, 1}, {1000, 1}, {1000, 2}} {
			b.Run(fmt.Sprintf("%s/%d/%d-writers", place.name, c.size, c.writers), func(b *testing.B) {
				begin := time.Now()
				write(b, p, run, &buyer, c.size, c.writers)
				b.ReportMetric(float64(b.N*c.size)/time.Since(begin).Seconds(), "orders/s")
			})
		}
	}
	for _, workers := range []int{1, 4} {
		b.Run(fmt.Sprintf("mariadb/article/%d-workers", workers), func(b *testing.B) { article(b, server, workers) })
	}
}

// write has b.N batches written by writers that take turns only where the database makes them.
func write(b *testing.B, p *place, run seckill.RunID, buyer *atomic.Uint32, size, writers int) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			rs := make([]seckill.Reservation, size)
			for left.Add(-1) >= 0 {
				for i := range rs {
					rs[i] = reservation(run, fmt.Sprintf("%08x-buyer", buyer.Add(1)*2654435761), 1)
				}
				w, err := p.WriteOrders(b.Context(), run, rs)
				if err != nil || !w[size-1].New {
					b.Errorf("%+v %v", w, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// article is the consumer of the article: the row of the stock locked, its version
// raised, the order inserted, committed.
func article(b *testing.B, server *testenv.Maria, workers int) {
	p := open(b, server.URL(b), 0)
	p.raw(b, "DROP TABLE seckill_order")
	p.raw(b, "DROP TABLE seckill_stock")
	p.raw(b, `CREATE TABLE seckill_stock (activity_id BIGINT PRIMARY KEY, total_stock INT NOT NULL, available_stock INT NOT NULL, version INT DEFAULT 0)`)
	p.raw(b, `CREATE TABLE seckill_order (id BIGINT PRIMARY KEY AUTO_INCREMENT, activity_id BIGINT NOT NULL, user_id BIGINT NOT NULL,
		status TINYINT DEFAULT 0, create_time DATETIME DEFAULT CURRENT_TIMESTAMP, UNIQUE KEY uk_activity_user (activity_id, user_id))`)
	p.raw(b, "INSERT INTO seckill_stock VALUES (1, 2000000000, 2000000000, 0)")
	users := make(chan uint32, 1000)
	ended := make(chan error, workers)
	for range workers {
		go func() {
			for user := range users {
				if err := articleOrder(b.Context(), p.write, user); err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}
	user := uint32(0)
	for b.Loop() {
		user++
		users <- user * 2654435761
	}
	close(users)
	for range workers {
		must(b, <-ended)
	}
	b.ReportMetric(float64(user)/b.Elapsed().Seconds(), "orders/s")
}

func articleOrder(ctx context.Context, db *sql.DB, user uint32) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var available, version int64
	err = tx.QueryRowContext(ctx, "SELECT available_stock, version FROM seckill_stock WHERE activity_id = 1 FOR UPDATE").Scan(&available, &version)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "UPDATE seckill_stock SET available_stock = available_stock - 1, version = ? WHERE activity_id = 1 AND version = ?",
		version+1, version)
	if err != nil {
		return err
	}
	if _, err = tx.ExecContext(ctx, "INSERT INTO seckill_order (activity_id, user_id, status) VALUES (1, ?, 1)", user); err != nil {
		return err
	}
	return tx.Commit()
}
