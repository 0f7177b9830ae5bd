package seckill

import "time"

// Actor is who changes something, from where and why. It goes into the audit log
// in the transaction of the change itself.
type Actor struct {
	Who    string // "admin-token", an account, or the name of a job.
	From   string // Client address; "" for a job.
	Reason string
}

// AuditEntry is one line of the audit log.
type AuditEntry struct {
	ID     int64
	At     time.Time
	Actor  Actor
	Action string // "activity.pause", "dead_letter.drop", …
	Object string // "activity/1", "order/12", …
	Detail string // JSON of what changed; never a secret.
}

// DeadLetter is a reservation, or a message, that could not become an order.
type DeadLetter struct {
	ID          int64
	Run         RunID  // Zero when the message could not be read.
	Ticket      string // "" when the message could not be read.
	Reservation *Reservation
	Payload     []byte // The message as it came.
	Reason      string // The last error, for the operator.
	Attempts    int
	At          time.Time
}

// Finding is one thing that reconciliation found wrong.
type Finding struct {
	Kind     string `json:"kind"` // oversold, lost_unit, orphan_reservation, missing_order, stock_drift, …
	Detail   string `json:"detail"`
	Units    int64  `json:"units"`
	Repaired bool   `json:"repaired"`
}
