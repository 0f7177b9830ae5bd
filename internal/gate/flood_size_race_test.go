//go:build race

package gate

// forged is how many buyers who do not exist come; the race detector makes each of them slow.
const forged = 300_000
