package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
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
	server := testenv.MariaDB(b)
	for _, place := range []struct {
		name string
		url  func() string
	}{
		{"sqlite", func() string { return sqliteURL(b) }},
		{"mariadb", func() string { return server.URL(b) }},
	} {
		p := open(b, place.url(), 0)
		run := p.sale(b, 1<<40, time.Hour)
		buyer := 0
		for _, size := range []int{1, 32, 200, 1000} {
			b.Run(fmt.Sprintf("%s/%d", place.name, size), func(b *testing.B) {
				orders := 0
				for b.Loop() {
					b.StopTimer()
					rs := make([]seckill.Reservation, size)
					for i := range rs {
						buyer++
						rs[i] = reservation(run, fmt.Sprintf("%08x-buyer", uint32(buyer)*2654435761), 1)
					}
					b.StartTimer()
					w, err := p.WriteOrders(b.Context(), run, rs)
					if err != nil || !w[size-1].New {
						b.Fatalf("%+v %v", w, err)
					}
					orders += size
				}
				b.ReportMetric(float64(orders)/b.Elapsed().Seconds(), "orders/s")
			})
		}
	}
	for _, workers := range []int{1, 4} {
		b.Run(fmt.Sprintf("mariadb/article/%d-workers", workers), func(b *testing.B) { article(b, server, workers) })
	}
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
