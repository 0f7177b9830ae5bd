package sqlstore

import (
	"errors"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testenv"
)

// What a server cannot take in one go it can take in parts: the error says so, rather than that
// the same call will go through later.
func TestMariaDBTakesSmallPackets(t *testing.T) {
	server := testenv.MariaDB(t, append(testenv.MariaFast, "--max-allowed-packet=16384")...)
	p := open(t, server.URL(t), 0)
	run := p.sale(t, 1000, time.Hour)
	all := buyers(run, 0, 500)
	if _, err := p.WriteOrders(t.Context(), run, all); err == nil || errors.Is(err, order.ErrUnavailable) {
		t.Fatalf("500 orders in packets of 16 KiB: %v, want an error that has the batch halved", err)
	}
	for n := 0; n < len(all); n += 25 {
		if _, err := p.WriteOrders(t.Context(), run, all[n:n+25]); err != nil {
			t.Fatalf("25 orders: %v", err)
		}
	}
	p.balanced(t, run, 1000, 500)
}

// A server that takes no changes is one to be waited for, whoever locked it.
func TestMariaDBReadOnly(t *testing.T) {
	server := testenv.MariaDB(t, testenv.MariaFast...)
	url := server.UserURL(t)
	p := open(t, url, 0)
	run := p.sale(t, 10, time.Hour)
	server.SQL(t, "SET GLOBAL read_only = 1")
	if _, err := p.WriteOrders(t.Context(), run, buyers(run, 0, 3)); !errors.Is(err, order.ErrUnavailable) {
		t.Fatalf("on a server that is read-only: %v", err)
	}
	server.SQL(t, "SET GLOBAL read_only = 0")
	if _, err := p.WriteOrders(t.Context(), run, buyers(run, 0, 3)); err != nil {
		t.Fatal(err)
	}
	p.balanced(t, run, 10, 3)
}
