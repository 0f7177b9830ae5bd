package redisstock

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// stream is an outbox that is a stream with one group of consumers.
type stream struct{ s *Stock }

// cursorEnd is where XAUTOCLAIM starts, and what it says when it has seen all.
const cursorEnd = "0-0"

func (stream) keys(tag string) []string { return []string{streamKey(tag)} }

func (o stream) look(ctx context.Context, sub *subscription, asks []question) []found {
	var cmds []rueidis.Completed
	var from []int
	var claimed []bool
	b := o.s.client.B()
	for i, a := range asks {
		key, id, count := streamKey(o.s.tag(a.place)), ">", a.count
		if a.again {
			id, count = "0", historyMost
		}
		cmds = append(cmds, b.Xreadgroup().Group(group, sub.name).Count(int64(count)).Streams().Key(key).Id(id).Build())
		from, claimed = append(from, i), append(claimed, false)
		if a.claim {
			cmds = append(cmds, b.Xautoclaim().Key(key).Group(group).Consumer(sub.name).
				MinIdleTime(strconv.FormatInt(o.s.claim.Milliseconds(), 10)).Start(cmp.Or(a.cursor, cursorEnd)).Count(int64(a.count)).Build())
			from, claimed = append(from, i), append(claimed, true)
		}
	}
	results, err := o.s.deliver(ctx, cmds)
	if err != nil {
		return failedAll(len(asks), err)
	}
	all := make([]found, len(asks))
	for i, r := range results {
		f := &all[from[i]]
		entries, cursor, err := entriesOf(r, claimed[i])
		if errors.Is(err, errNoOutbox) {
			f.gone, err = true, nil
		}
		f.cursor = cmp.Or(cursor, f.cursor)
		f.err = cmp.Or(f.err, err)
		for _, e := range entries {
			if len(e.FieldValues) == 1 { // Else it was acknowledged meanwhile, and is only remembered.
				f.entries = append(f.entries, entry{e.ID, e.FieldValues[0].Value, 1})
			}
		}
	}
	return all
}

// entriesOf reads the answer of XREADGROUP on one stream, or of XAUTOCLAIM, which says where to go
// on if it has not seen all.
func entriesOf(r rueidis.RedisResult, claimed bool) (entries []rueidis.XRangeSlice, cursor string, err error) {
	m, err := r.ToMessage()
	var refused *rueidis.RedisError
	switch {
	case rueidis.IsRedisNil(err):
		return nil, "", nil
	case errors.As(err, &refused) && strings.HasPrefix(refused.Error(), "NOGROUP"):
		return nil, "", errNoOutbox
	case err != nil:
		return nil, "", err
	}
	if !claimed {
		streams, err := m.AsXReadSlices()
		for _, entries := range streams {
			return entries, "", err
		}
		return nil, "", err
	}
	parts, err := m.ToArray()
	if err != nil || len(parts) < 2 {
		return nil, "", err
	}
	if cursor, err = parts[0].ToString(); err != nil || cursor == cursorEnd {
		cursor = ""
	}
	list, err := parts[1].ToArray()
	if err != nil {
		return nil, "", err
	}
	for i := range list {
		if list[i].IsNil() {
			continue // Redis 6.2 says so of one that is not there any more.
		}
		entry, err := list[i].AsXRangeSlice()
		if err != nil {
			return entries, "", err
		}
		entries = append(entries, entry)
	}
	return entries, cursor, nil
}

func (stream) ack(tag string, ids []string) call {
	return call{ackScript, []string{runKey(tag), buyersKey(tag), behindKey(tag), streamKey(tag)}, append([]string{group}, ids...)}
}

func (o stream) keep(tag string, sub *subscription) call {
	idle := strconv.FormatInt(o.s.claim.Milliseconds()/4, 10)
	return call{keepScript, []string{streamKey(tag)}, []string{group, sub.name, idle}}
}

func (stream) leave(tag string, sub *subscription) call {
	return call{leaveScript, []string{streamKey(tag)}, []string{
		group, sub.name, handedBack, strconv.FormatInt(silentMost.Milliseconds(), 10),
	}}
}

func (stream) queued(tag string) (key, start string) { return streamKey(tag), "-" }

// oldest asks for what oldestOf reads.
func (o stream) oldest(tag string) []rueidis.Completed {
	return []rueidis.Completed{o.s.client.B().Xrange().Key(streamKey(tag)).Start("-").End("+").Count(1).Build()}
}

// oldestOf tells when the oldest message came, in Unix ms; 0 if there is none.
func (stream) oldestOf(first rueidis.RedisResult) (ms int64, err error) {
	entries, err := first.AsXRangeSlices()
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	at, _, _ := strings.Cut(entries[0].ID, "-")
	return strconv.ParseInt(at, 10, 64)
}
