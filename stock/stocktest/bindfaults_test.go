package stocktest

import (
	"context"

	"seckill"
	"seckill/stock"
)

// bindOnce is a right Bind that remembers in a channel of one.
func bindOnce(bound chan string) func(string) (string, error) {
	bound <- ""
	return func(database string) (string, error) {
		old := <-bound
		if old == "" {
			old = database
		}
		bound <- old
		return old, nil
	}
}

func bindingFaults() map[string]fault {
	return map[string]fault{
		"belongs to whoever came last": {fails: "BoundOnce AgreesWithModel", apply: func(b *broken, _ stock.Stock, _ *memory) {
			b.bind = func(database string) (string, error) { return database, nil }
		}},
		"forgets whose it is when it is closed": {fails: "BoundOnce", durable: true, apply: func(b *broken, _ stock.Stock, _ *memory) {
			b.bind = bindOnce(make(chan string, 1))
		}},
		"forgets whose it is with its last run": {fails: "BoundOnce", apply: func(b *broken, right stock.Stock, _ *memory) {
			bound := make(chan string, 1)
			b.bind = bindOnce(bound)
			b.drop = func(id seckill.RunID) error {
				<-bound
				bound <- ""
				return right.Drop(context.Background(), id)
			}
		}},
	}
}
