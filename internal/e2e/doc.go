// Package e2e is tests only: they start the real binary, as people do, and ask it over
// HTTP. What it promises when it is killed, stopped or given nonsense is checked here.
package e2e
