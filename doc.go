// Package seckill holds the words of a flash sale, and nothing else: no
// storage, no transport, no clock.
//
//	Attempt → Reservation → Order → Outcome
//
// An *activity* is what is sold, once or every day; each time is a *run* of it.
// A buyer's click is an [Attempt]. The stock decides it: a definite no is a
// [Refusal], a yes is a [Reservation], held by the stock and known to the buyer by
// its *ticket*. The order writer makes an [Order] of it, or fails it. The [Outcome]
// is what the buyer hears of all this.
//
// A reservation is queued, then confirmed or failed, once. An order is
// awaiting payment, then paid, cancelled or expired, once.
//
// Every other package of the module imports this one, and this one imports none
// of them.
package seckill
