//go:build !race

package gate

// forged is how many buyers who do not exist come.
const forged = 10_000_000
