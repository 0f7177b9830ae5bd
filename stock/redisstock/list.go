package redisstock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// list is an outbox that is a list of ids, with the messages and who has them beside it. What a
// consumer takes moves, in one step, from the list to what is in hand under his name; a dead
// consumer's goes back to the front. There is no list for each consumer, so that all keys
// are known by name: to a load that replaces them, and to a cluster that moves them.
type list struct{ s *Stock }

const (
	// pullMost is how many messages one call gives.
	pullMost = 1000
	// aliveMark is in front of a consumer's name where his last sign of life is kept.
	aliveMark = "@"
)

func (list) keys(tag string) []string { return []string{waitingKey(tag), messagesKey(tag)} }

func (o list) look(ctx context.Context, sub *subscription, asks []question) []found {
	calls := make([]call, len(asks))
	open := make([]int, len(asks))
	answers := make([]answer, len(asks))
	for i, a := range asks {
		claim := ""
		if a.claim {
			claim = strconv.FormatInt(o.s.claim.Milliseconds(), 10)
		}
		tag := o.s.tag(a.place)
		open[i], calls[i] = i, call{pullScript, []string{waitingKey(tag), messagesKey(tag), takenKey(tag)}, []string{
			sub.name, strconv.Itoa(min(a.count, pullMost)), bit(a.again), claim,
		}}
	}
	// One round: whoever repeats what has got lost has to ask again for what it brought.
	o.s.ask(ctx, calls, open, answers)
	all := make([]found, len(asks))
	for i := range answers {
		all[i].entries, all[i].err = pulled(&answers[i])
		if errors.Is(all[i].err, errNoOutbox) {
			all[i].gone, all[i].err = true, nil
		}
	}
	return all
}

// pulled reads the answer of pull.lua.
func pulled(a *answer) ([]entry, error) {
	if a.err != nil {
		return nil, a.err
	}
	if a.IsNil() {
		return nil, errNoOutbox
	}
	fields, err := a.ToArray()
	if err != nil || len(fields)%3 != 0 {
		return nil, fmt.Errorf("pull answers %d fields: %w", len(fields), err)
	}
	entries := make([]entry, len(fields)/3)
	for i := range entries {
		var errs [3]error
		var attempt int64
		entries[i].id, errs[0] = fields[3*i].ToString()
		attempt, errs[1] = fields[3*i+1].AsInt64()
		entries[i].text, errs[2] = fields[3*i+2].ToString()
		entries[i].attempt = int(attempt)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

func (list) ack(tag string, ids []string) call {
	keys := []string{runKey(tag), buyersKey(tag), behindKey(tag), messagesKey(tag), takenKey(tag)}
	return call{ackScript, keys, append([]string{""}, ids...)}
}

func (list) keep(tag string, sub *subscription) call {
	return call{aliveScript, []string{takenKey(tag)}, []string{sub.name}}
}

func (list) leave(tag string, sub *subscription) call {
	return call{unhandScript, []string{waitingKey(tag), takenKey(tag)}, []string{sub.name}}
}

func (list) queued(tag string) (key, start string) { return messagesKey(tag), "0" }

// oldest asks for what oldestOf reads: what waits in front, and all that is in hand.
func (o list) oldest(tag string) []rueidis.Completed {
	b := o.s.client.B()
	return []rueidis.Completed{b.Lindex().Key(waitingKey(tag)).Index(1).Build(), b.Hkeys().Key(takenKey(tag)).Build()}
}

// oldestOf tells when the oldest message came, in Unix ms; 0 if there is none.
func (list) oldestOf(waits, inHand rueidis.RedisResult) (ms int64, err error) {
	first, err := waits.ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return 0, err
	}
	ids, err := inHand.AsStrSlice()
	if err != nil {
		return 0, err
	}
	for _, id := range append(ids, first) {
		if id == "" || strings.HasPrefix(id, aliveMark) {
			continue
		}
		text, _, _ := strings.Cut(id, "-")
		us, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		if at := us / 1000; ms == 0 || at < ms {
			ms = at
		}
	}
	return ms, nil
}
