package queue

import (
	"encoding/json"
	"fmt"
	"time"

	"seckill"
)

// Version is the version of the message format that this program writes, and the
// newest that it reads.
const Version = 1

// envelope is the message on the wire, in JSON. Other languages may read it.
type envelope struct {
	Version      int           `json:"v"`
	Activity     int64         `json:"activity"`
	Run          int           `json:"run"`
	Reservations []reservation `json:"reservations"`
}

type reservation struct {
	Ticket     string `json:"ticket"`
	Buyer      string `json:"buyer"`
	Quantity   int    `json:"quantity"`
	Slot       int    `json:"slot"`
	ReservedMS int64  `json:"reserved_ms"` // Unix time in milliseconds.
}

// EncodeReservations makes the body of a message from reservations of one run.
func EncodeReservations(run seckill.RunID, rs []seckill.Reservation) []byte {
	e := envelope{Version, run.Activity, run.Run, make([]reservation, len(rs))}
	for i, r := range rs {
		e.Reservations[i] = reservation{r.Ticket, r.Buyer, r.Quantity, r.Slot, r.ReservedAt.UnixMilli()}
	}
	body, err := json.Marshal(e)
	if err != nil {
		panic(err) // Strings and numbers always encode.
	}
	return body
}

// DecodeReservations reads the body of a message. Whatever it accepts is fit to
// become orders: buyers, quantities and slots are within their bounds.
func DecodeReservations(body []byte) (seckill.RunID, []seckill.Reservation, error) {
	var e envelope
	if err := json.Unmarshal(body, &e); err != nil {
		return seckill.RunID{}, nil, fmt.Errorf("decode message: %w", err)
	}
	run := seckill.RunID{Activity: e.Activity, Run: e.Run}
	if e.Version < 1 || e.Version > Version {
		return run, nil, fmt.Errorf("message has version %d; this program reads 1 to %d", e.Version, Version)
	}
	if run.Activity < 1 || run.Run < 1 || len(e.Reservations) == 0 {
		return run, nil, fmt.Errorf("message names activity %d, run %d and %d reservations; each has to be at least 1",
			run.Activity, run.Run, len(e.Reservations))
	}
	rs := make([]seckill.Reservation, len(e.Reservations))
	for i, r := range e.Reservations {
		of, ok := seckill.TicketRun(r.Ticket)
		switch {
		case !ok || of != run:
			return run, nil, fmt.Errorf("ticket %q is not of activity %d, run %d", r.Ticket, run.Activity, run.Run)
		case !seckill.ValidBuyer(r.Buyer):
			return run, nil, fmt.Errorf("ticket %s: the buyer's id is not 1 to %d printable bytes", r.Ticket, seckill.BuyerBytesMax)
		case r.Quantity < 1 || r.Quantity > seckill.QuantityMax || r.Slot < 1 || r.Slot > seckill.QuantityMax:
			return run, nil, fmt.Errorf("ticket %s: quantity %d or slot %d is out of bounds", r.Ticket, r.Quantity, r.Slot)
		}
		rs[i] = seckill.Reservation{
			Ticket: r.Ticket, Run: run, Buyer: r.Buyer, Quantity: r.Quantity, Slot: r.Slot,
			ReservedAt: time.UnixMilli(r.ReservedMS).UTC(),
		}
	}
	return run, rs, nil
}
