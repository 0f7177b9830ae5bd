package seckill

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Bounds of what comes from outside.
const (
	BuyerBytesMax = 64  // A buyer's id is 1 to 64 bytes of printable ASCII.
	KeyBytesMax   = 255 // Idempotency-Key.
	QuantityMax   = 1_000_000
)

// ValidBuyer tells whether s can be a buyer's id.
func ValidBuyer(s string) bool { return printable(s, BuyerBytesMax) }

// ValidKey tells whether s can be an idempotency key.
func ValidKey(s string) bool { return printable(s, KeyBytesMax) }

func printable(s string, bytesMax int) bool {
	if s == "" || len(s) > bytesMax {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Attempt is one buyer's wish to buy, past the gate. Its ticket is made before the
// stock is asked, so that a call whose answer was lost can be repeated: the
// same ticket is the same attempt.
type Attempt struct {
	Ticket   string
	Buyer    string
	Quantity int
	Key      string // Idempotency key, "" if the buyer sent none.
}

// Reservation is an attempt that the stock has taken units for.
type Reservation struct {
	Ticket     string
	Run        RunID
	Buyer      string
	Quantity   int
	Slot       int // Number of this purchase among the buyer's live ones, from 1, the lowest free.
	ReservedAt time.Time
}

// OrderState is the state of an order. Its numbers are stored in the database.
type OrderState int8

// The states of an order.
const (
	AwaitingPayment OrderState = 1
	Paid            OrderState = 2
	Cancelled       OrderState = 3
	Expired         OrderState = 4
)

// String gives the name that the API uses.
func (s OrderState) String() string {
	switch s {
	case AwaitingPayment:
		return "awaiting_payment"
	case Paid:
		return "paid"
	case Cancelled:
		return "cancelled"
	case Expired:
		return "expired"
	}
	return "unknown"
}

// Live tells whether the order holds its units.
func (s OrderState) Live() bool { return s == AwaitingPayment || s == Paid }

// Order is a reservation that is committed in the database.
type Order struct {
	ID          string // Opaque to buyers; the decimal of the row's id.
	Ticket      string
	Run         RunID
	Buyer       string
	Quantity    int
	Slot        int
	AmountCents int64
	State       OrderState
	PaymentRef  string
	CreatedAt   time.Time
	PayBefore   time.Time
}

// Progress is how far a reservation has come.
type Progress int8

// The progress of a reservation.
const (
	Queued Progress = iota
	Confirmed
	Failed
)

// String gives the name that the API uses.
func (p Progress) String() string {
	return [...]string{"queued", "confirmed", "failed"}[p]
}

// Outcome is what a buyer may know of a ticket.
type Outcome struct {
	Progress Progress
	Reason   Reason // When failed.
	Ahead    int64  // Reservations in front of this one, when queued.
	Order    *Order // When confirmed.
}

// ErrNotFound is said of what is not there, or not the caller's.
var ErrNotFound = errors.New("not found")

var ticketAlphabet = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewTicket makes a ticket of a run: its activity and run, and 100 bits. The first 32 are the time, in Unix
// milliseconds, so that a ticket sorts behind the earlier ones of its run, and a database puts it at the end
// of its index. Every 49 days they begin again at zero; then that is not so once. The other 68 are random. A
// ticket is shown to its buyer alone, and nobody else may ask for it; but whoever knew a millisecond with a
// thousand tickets in it, and could try a million a second, would try for thousands of years.
func NewTicket(run RunID) string {
	var bits [13]byte
	rand.Read(bits[4:])
	binary.BigEndian.PutUint32(bits[:], uint32(time.Now().UnixMilli()))
	return TicketOf(run, bits)
}

// TicketOf makes the ticket of a run that belongs to bits which nobody can guess: an entry
// has one ticket, however often it is shown.
func TicketOf(run RunID, bits [13]byte) string {
	b := make([]byte, 0, 32)
	b = strconv.AppendInt(b, run.Activity, 36)
	b = append(b, '-')
	b = strconv.AppendInt(b, int64(run.Run), 36)
	b = append(b, '-')
	return string(ticketAlphabet.AppendEncode(b, bits[:])[:len(b)+20])
}

// TicketRun reads the run out of a ticket. It says nothing about whether the
// ticket was ever given.
func TicketRun(ticket string) (RunID, bool) {
	for i := 0; i < len(ticket); i++ {
		if c := ticket[i]; (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-' {
			return RunID{}, false
		}
	}
	activity, rest, ok := strings.Cut(ticket, "-")
	run, random, ok2 := strings.Cut(rest, "-")
	if !ok || !ok2 || len(random) != 20 || len(ticket) > 64 {
		return RunID{}, false
	}
	a, err := strconv.ParseInt(activity, 36, 64)
	r, err2 := strconv.ParseInt(run, 36, 32)
	if err != nil || err2 != nil || a < 1 || r < 1 {
		return RunID{}, false
	}
	return RunID{a, int(r)}, true
}
