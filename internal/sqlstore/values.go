package sqlstore

import (
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"seckill"
)

// timeLayout is how times are stored: in UTC and of one width, so that they compare
// as text as they do as times.
const timeLayout = "2006-01-02 15:04:05.000000"

func formatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// stored returns a time as it will be read again.
func stored(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// stamp reads and writes times. The zero time is NULL.
type stamp struct{ time.Time }

func at(t time.Time) stamp { return stamp{t} }

// Value implements driver.Valuer.
func (s stamp) Value() (driver.Value, error) {
	if s.IsZero() {
		return nil, nil
	}
	return formatTime(s.Time), nil
}

// Scan implements sql.Scanner: one driver gives times, the other text.
func (s *stamp) Scan(v any) (err error) {
	switch v := v.(type) {
	case nil:
		s.Time = time.Time{}
	case time.Time:
		s.Time = v.UTC()
	case string:
		s.Time, err = time.Parse(timeLayout, v)
	case []byte:
		s.Time, err = time.Parse(timeLayout, string(v))
	default:
		err = fmt.Errorf("a time cannot be read from a %T", v)
	}
	return err
}

// buyerID reads and writes a buyer's id. MySQL compares text as if spaces at its
// end were not there, but "a" and "a " are two buyers: an id that ends in a space
// is stored with a DEL behind it, a byte that no id has.
type buyerID string

// Value implements driver.Valuer.
func (b buyerID) Value() (driver.Value, error) { return b.stored(), nil }

func (b buyerID) stored() string {
	if strings.HasSuffix(string(b), " ") {
		return string(b) + "\x7f"
	}
	return string(b)
}

// Scan implements sql.Scanner.
func (b *buyerID) Scan(v any) error {
	switch v := v.(type) {
	case string:
		*b = buyerID(strings.TrimSuffix(v, "\x7f"))
	case []byte:
		*b = buyerID(strings.TrimSuffix(string(v), "\x7f"))
	default:
		return fmt.Errorf("a buyer's id cannot be read from a %T", v)
	}
	return nil
}

// orderID reads an order's id from outside.
func orderID(s string) (int64, bool) {
	id, err := strconv.ParseInt(s, 10, 64)
	// Only the form that was given out: "+7" and "007" name no order.
	return id, err == nil && id > 0 && strconv.FormatInt(id, 10) == s
}

// rowID is the number of an order that was read from here. As text it would be compared
// as a floating-point number by MySQL, which is one digit short.
func rowID(s string) int64 {
	id, _ := orderID(s)
	return id
}

// cursor reads the id that a page begins behind; "" is given as start.
func cursor(s string, start int64) (int64, error) {
	if s == "" {
		return start, nil
	}
	id, ok := orderID(s)
	if !ok {
		return 0, seckill.Invalid("cursor", seckill.RuleFormat, "a cursor of an earlier page")
	}
	return id, nil
}

// clip cuts text that comes from outside to what its column holds.
func clip(s string, bytesMax int) string {
	if len(s) <= bytesMax {
		return s
	}
	for bytesMax > 0 && !utf8.RuneStart(s[bytesMax]) {
		bytesMax--
	}
	return s[:bytesMax]
}
