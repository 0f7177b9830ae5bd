package stocktest

import (
	"fmt"
	"sync"
)

// bind wants the stock to be bound to a database, whatever it is asked to bind to.
func (k *kit) bind(database, want string) {
	k.Helper()
	got, err := k.Bind(k.ctx(), database)
	k.must(err)
	if got != want {
		k.Fatalf("bind to %s: bound to %q, want %q", database, got, want)
	}
}

// A stock belongs to the database that it was bound to first: of several at once to one,
// after a reopen still, and whatever becomes of its runs.
func boundOnce(k *kit) {
	k.load(1, 1)
	var all sync.WaitGroup
	told := make([]string, 8)
	for i := range told {
		all.Go(func() {
			var err error
			if told[i], err = k.Bind(k.ctx(), fmt.Sprint("database ", i)); err != nil {
				k.Errorf("bind: %v", err)
			}
		})
	}
	all.Wait()
	first := told[0]
	for i, got := range told {
		if got != first || got == "" {
			k.Fatalf("caller %d was told %q, another %q", i, got, first)
		}
	}
	k.bind("another database", first)
	k.must(k.Drop(k.ctx(), k.id))
	k.bind("another database", first)
	if k.Durable {
		k.reopen()
		k.bind("another database", first)
	}
}
