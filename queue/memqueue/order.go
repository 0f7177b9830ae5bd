package memqueue

import "slices"

// mergeByAge puts what came back among what waits, by the time of publishing.
func mergeByAge(back, ready []*item) []*item {
	all := append(back, ready...)
	slices.SortStableFunc(all, func(a, b *item) int { return a.at.Compare(b.at) })
	return all
}
