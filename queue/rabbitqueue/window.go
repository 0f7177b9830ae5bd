package rabbitqueue

import "time"

// window is what one channel has delivered and nobody has acknowledged. Its tags follow
// one another without a gap.
type window struct {
	low   uint64  // The tag of the first in list.
	list  []entry // From the oldest that is not acknowledged on. Bounded by what a consumer may let wait behind it.
	count int     // Not acknowledged.
}

type entry struct {
	at    time.Time // When it was published; zero if unknown.
	acked bool
}

func (w *window) add(tag uint64, at time.Time) {
	if len(w.list) == 0 {
		w.low = tag
	}
	w.list = append(w.list, entry{at: at})
	w.count++
}

// find returns what is not acknowledged under a tag, or nil.
func (w *window) find(tag uint64) *entry {
	if tag < w.low || tag-w.low >= uint64(len(w.list)) || w.list[tag-w.low].acked {
		return nil
	}
	return &w.list[tag-w.low]
}

// has tells whether any of the tags is not acknowledged.
func (w *window) has(tags []uint64) bool {
	for _, tag := range tags {
		if w.find(tag) != nil {
			return true
		}
	}
	return false
}

// settle takes the tags as acknowledged. The broker has to hear that everything up to upTo
// is, if that is not 0, and each of single.
func (w *window) settle(tags []uint64) (upTo uint64, single []uint64) {
	fresh := make([]uint64, 0, len(tags))
	for _, tag := range tags {
		if e := w.find(tag); e != nil {
			e.acked = true
			w.count--
			fresh = append(fresh, tag)
		}
	}
	n := 0
	for n < len(w.list) && w.list[n].acked {
		n++
	}
	if n > 0 {
		w.list = w.list[n:]
		w.low += uint64(n)
		upTo = w.low - 1
	}
	for _, tag := range fresh {
		if tag > upTo {
			single = append(single, tag)
		}
	}
	return upTo, single
}

func (w *window) oldest() time.Time {
	if len(w.list) == 0 {
		return time.Time{}
	}
	return w.list[0].at
}
