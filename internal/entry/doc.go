// Package entry makes sure that a purchase was preceded by an entry: it gives and checks
// the tokens that let one buyer make one purchase in one run, and the proofs of
// work that a token may cost. It serves no requests, stores no keys and reserves nothing.
// The public door is its user.
//
// # The way in
//
//	Door.Challenge → the browser works → Door.Admit → a token → Door.Check, Door.Use → the stock
//
// Tokens and challenges are signed and hold all that is known of them, so every node with
// the same keys can check what another gave, and none keeps a list of them.
//
// # What "once" means
//
// A node remembers what was used with it ([Seen]). Over several nodes, the nonce of a token ([Pass]) has to go
// into the reservation, where the stock refuses the second one in the step that
// takes the units. The nonce of a token that cost a proof is made of that proof: whoever
// shows one proof to several nodes gets tokens that are, to the stock, one token.
//
// The same purchase may be sent again, as answers get lost: it is no second use if it has the idempotency key
// of the first.
//
// # Clocks
//
// Nodes may be [Options.Leeway] apart. No purchase comes early by that: a token says when it
// was given, and whether the sale is open is for the stock's clock alone.
package entry
