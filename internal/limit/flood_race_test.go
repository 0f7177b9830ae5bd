//go:build race

package limit

// floodKeys is how many made-up keys there are in a flood: fewer where each costs ten times as much.
const floodKeys = 1_000_000
