package redisstock

import (
	"fmt"
	"hash/fnv"
	"strconv"

	"seckill"
)

// place is one sub-stock of a run. All its keys carry one hash tag, so that they are in
// one slot of a cluster.
type place struct {
	run seckill.RunID
	sub int // From 0.
}

// tag is the part of a key that decides its slot.
func (s *Stock) tag(p place) string {
	b := make([]byte, 0, 64)
	b = append(b, '{')
	b = append(b, s.prefix...)
	b = append(b, ':')
	b = strconv.AppendInt(b, p.run.Activity, 10)
	b = append(b, ':')
	b = strconv.AppendInt(b, int64(p.run.Run), 10)
	b = append(b, ':')
	b = strconv.AppendInt(b, int64(p.sub), 10)
	return string(append(b, '}'))
}

// The keys of a sub-stock. Nothing else makes one, least of all a script.
//
// runKey is a hash: e epoch, k number of sub-stocks, o sells, s start and f end in µs, l limit, p paused,
// x expiry in ms; units: a available, q queued, w awaiting payment, d paid; reservations: n queued,
// u out of the queue, b in the outbox; r counter of returns, c counter of moves, y last wake in µs.
func runKey(tag string) string { return tag + ":run" }

// buyersKey is a hash: buyer to record (see record.lua), and the empty name.
func buyersKey(tag string) string { return tag + ":buyers" }

// outboxKey is a stream; see reserve.lua.
func outboxKey(tag string) string { return tag + ":outbox" }

// behindKey is a hash: ticket to the text (see queued.lua) of a reservation that is queued though
// its message is out of the outbox.
func behindKey(tag string) string { return tag + ":behind" }

// transfersKey is a hash; see status.lua.
func transfersKey(tag string) string { return tag + ":transfers" }

// restocksKey is a hash: id to "wanted done ended".
func restocksKey(tag string) string { return tag + ":restocks" }

// asideKey holds the buyers of a load that is being prepared.
func asideKey(tag, load string) string { return tag + ":aside:" + load }

// allKeys are the keys that a sub-stock has from its load on.
func allKeys(tag string) []string {
	return []string{runKey(tag), buyersKey(tag), outboxKey(tag), behindKey(tag), transfersKey(tag), restocksKey(tag)}
}

// listKey is a hash that lists the runs: "activity:run" to "sub-stocks:expiry in ms".
func (s *Stock) listKey() string { return "{" + s.prefix + "}:runs" }

// eventsChannel and wakeChannel are for publish and subscribe.
func (s *Stock) eventsChannel() string { return s.prefix + ":events" }
func (s *Stock) wakeChannel() string   { return s.prefix + ":wake" }

// runName names a run in lists and events.
func runName(id seckill.RunID) string { return fmt.Sprintf("%d:%d", id.Activity, id.Run) }

func parseRunName(s string) (seckill.RunID, bool) {
	var id seckill.RunID
	n, err := fmt.Sscanf(s, "%d:%d", &id.Activity, &id.Run)
	return id, err == nil && n == 2 && runName(id) == s
}

// placeName names a sub-stock when consumers are woken.
func placeName(p place) string { return runName(p.run) + ":" + strconv.Itoa(p.sub) }

func parsePlaceName(s string) (place, bool) {
	var p place
	n, err := fmt.Sscanf(s, "%d:%d:%d", &p.run.Activity, &p.run.Run, &p.sub)
	return p, err == nil && n == 3 && placeName(p) == s
}

// home is the sub-stock that a buyer belongs to. It is the same in every process, for ever.
func home(buyer string, subs int) int {
	if subs == 1 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(buyer))
	return int(h.Sum64() % uint64(subs))
}
