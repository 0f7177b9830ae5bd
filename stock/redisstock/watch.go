package redisstock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"seckill/stock"
)

// errUnsubscribed says that Redis ended a subscription.
var errUnsubscribed = errors.New("redis ended the subscription")

// Watch implements [stock.Stock].
func (s *Stock) Watch(ctx context.Context, notify func(stock.Event)) error {
	err := s.listen(ctx, s.eventsChannel(), func(message string) {
		for _, ev := range parseEvents(message) {
			notify(ev)
		}
	})
	if ctx.Err() == nil {
		return fmt.Errorf("watch: %w", err)
	}
	return nil // Whatever the connection says then is only that.
}

// listen hears a channel until ctx ends or the connection fails. The connection is its own,
// so that whoever is slow to hear holds up nobody else.
func (s *Stock) listen(ctx context.Context, channel string, hear func(message string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	client, release := s.client.Dedicate()
	defer release()
	err := client.Receive(ctx, client.B().Subscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) {
		if ctx.Err() == nil {
			hear(m.Message)
		}
	})
	switch {
	case s.ctx.Err() != nil:
		return ErrClosed
	case err == nil:
		return errUnsubscribed
	}
	return err
}

// parseEvents reads what scripts publish: the run's name, then a line per event: "S ticket
// buyer" settled, "F ticket buyer" settled and units came back, "U" units, "R" run. What cannot
// be read comes from a newer version, and is left out.
func parseEvents(message string) []stock.Event {
	head, rest, _ := strings.Cut(message, "\n")
	run, ok := parseRunName(head)
	if !ok {
		return nil
	}
	var events []stock.Event
	for line := range strings.SplitSeq(rest, "\n") {
		kind, what, _ := strings.Cut(line, " ")
		ticket, buyer, _ := strings.Cut(what, " ")
		switch kind {
		case "S", "F":
			events = append(events, stock.Event{
				Kind: stock.EventSettled, Run: run, Ticket: long(run, ticket), Buyer: buyer, Released: kind == "F",
			})
		case "U":
			events = append(events, stock.Event{Kind: stock.EventUnits, Run: run})
		case "R":
			events = append(events, stock.Event{Kind: stock.EventRun, Run: run})
		}
	}
	return events
}
