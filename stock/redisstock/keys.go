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

// The keys of a sub-stock. Nothing else makes one, least of all a script.
//
// runKey is a hash: e epoch, k number of sub-stocks, o sells, s start and f end in µs, l limit, p paused,
// x expiry in ms, z kind of the outbox, v and h see pulse.lua; units: a available, q queued, w awaiting payment, d paid; reservations: n queued,
// u out of the queue, b in the outbox; r counter of returns, c counter of moves, y last wake in µs.
func runKey(tag string) string { return tag + ":run" }

// buyersKey is a hash: buyer to record (see record.lua), and the empty name.
func buyersKey(tag string) string { return tag + ":buyers" }

// streamKey is the outbox as a stream, each entry with one field, the message; see reserve.lua.
func streamKey(tag string) string { return tag + ":outbox" }

// waitingKey is the outbox as a list: the ids of messages, "µs-number", that wait, the next one second.
// The first element stands for nothing: it keeps the key when nothing waits.
func waitingKey(tag string) string { return tag + ":waiting" }

// messagesKey is a hash: the id of each message in a list, waiting or in hand, to the message;
// and the empty name.
func messagesKey(tag string) string { return tag + ":messages" }

// takenKey is a hash: who has which message of a list in hand; see taken.lua.
func takenKey(tag string) string { return tag + ":taken" }

// behindKey is a hash: ticket to the text (see queued.lua) of a reservation that is queued though
// its message is out of the outbox.
func behindKey(tag string) string { return tag + ":behind" }

// transfersKey is a hash; see status.lua.
func transfersKey(tag string) string { return tag + ":transfers" }

// restocksKey is a hash: id to "wanted done ended".
func restocksKey(tag string) string { return tag + ":restocks" }

// asideKey holds the buyers of a load that is being prepared.
func asideKey(tag, load string) string { return tag + ":aside:" + load }

// allKeys are the keys that a sub-stock may have, in the order in which load.lua takes them. From
// its load on it has all but those of the other kind of outbox.
func allKeys(tag string) []string {
	return []string{
		runKey(tag), buyersKey(tag), behindKey(tag), transfersKey(tag), restocksKey(tag),
		streamKey(tag), waitingKey(tag), messagesKey(tag), takenKey(tag),
	}
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
