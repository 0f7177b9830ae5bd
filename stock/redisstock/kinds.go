package redisstock

import (
	"context"
	"errors"
	"fmt"
)

// kind is how an outbox is kept in Redis. A run has it from its load to its end: whatever a
// process would choose for the next run, it reads and writes each as that was loaded.
type kind int

// The kinds, as status.lua and the list of runs have them.
const (
	streamKind kind = iota
	listKind
)

// kindNames are the kinds as Options.Outbox has them.
var kindNames = [...]string{streamKind: "stream", listKind: "list"}

func (k kind) String() string { return kindNames[k] }

func parseKind(name string) (kind, error) {
	for k, n := range kindNames {
		if n == name {
			return kind(k), nil
		}
	}
	return 0, fmt.Errorf("outbox %q: accepted are stream and list", name)
}

// outbox is all that differs between the kinds.
type outbox interface {
	// keys are those that reserve.lua takes behind the run and the buyers.
	keys(tag string) []string
	// look asks outboxes for messages, all at once, and answers each in its place.
	look(ctx context.Context, sub *subscription, asks []question) []found
	// ack, keep and leave are calls for a consumer: what he has is done; is worked on; goes back.
	ack(tag string, ids []string) call
	keep(tag string, sub *subscription) call
	leave(tag string, sub *subscription) call
	// queued is where queued.lua finds messages, and how it begins.
	queued(tag string) (key, start string)
}

func (k kind) outbox(s *Stock) outbox {
	if k == listKind {
		return list{s}
	}
	return stream{s}
}

// question is what a subscription asks of one outbox.
type question struct {
	place
	count  int    // Messages at most.
	again  bool   // What the consumer has already is wanted, too: an answer was lost.
	claim  bool   // What dead consumers have is wanted, too.
	cursor string // Where that goes on; "" from the start.
}

// found is what one outbox answered.
type found struct {
	entries []entry
	cursor  string // Where to go on claiming, "" if all is seen.
	gone    bool   // There is no outbox of this kind.
	err     error
}

// entry is a message, and how often it was given to a consumer, where that is counted.
type entry struct {
	id, text string
	attempt  int
}

// errNoOutbox says that there is no outbox of a kind: it is of the other one, or the run is gone.
var errNoOutbox = errors.New("there is no such outbox")

// failedAll is the answer of outboxes that could not be asked.
func failedAll(n int, err error) []found {
	all := make([]found, n)
	for i := range all {
		all[i].err = err
	}
	return all
}
