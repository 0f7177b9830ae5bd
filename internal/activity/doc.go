// Package activity is the life of an activity: created by an operator, brought into the
// stock in time, paused, restocked, closed, run again, and forgotten.
//
//   - Registry is what this node knows of all activities and of the stock's levels. Buyers'
//     requests read it, and nothing else of this package.
//   - Operator carries out operators' commands.
//   - Keeper brings runs into the stock when their time comes, and back when the stock has
//     lost them.
//
// It sells nothing, writes no order, and knows no driver. The database is what counts: a
// command is done when the database has it, and stock and nodes follow.
package activity
