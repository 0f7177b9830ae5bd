// Package order turns reservations into orders, and tells the stock what became of
// each. It is the only thing that writes orders.
//
//   - Writer reads reservations from a queue and writes them in batches: database,
//     then stock, then queue. Dying between any two repeats work and loses none.
//   - Expirer ends orders that were not paid in time.
//   - Desk is what buyers and operators ask: list, pay, cancel, dead letters.
//   - Settler repeats what the stock could not be told at once.
//
// It knows no driver and never sells: it cannot make a reservation, and the stock
// is told only what the database has committed. internal/app runs it.
package order
