package activity

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"seckill"
)

// Bounds of an activity.
const (
	NameBytesMax        = 128
	DescriptionBytesMax = 4096
	PriceCentsMax       = 1_000_000_000_000
	StockMax            = 100_000_000
	LimitMax            = 1_000_000
	SubStocksMax        = 1024
	PreloadBeforeMax    = 24 * time.Hour
	PaymentWindowMax    = 7 * 24 * time.Hour
)

// Times outside of these are slips of the keyboard, and not every database can hold them.
var (
	timeMin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	timeMax = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// wrong collects field errors.
type wrong []seckill.FieldError

func (w *wrong) add(field string, rule seckill.Rule, arg string) {
	*w = append(*w, seckill.FieldError{Field: field, Rule: rule, Arg: arg})
}

func (w *wrong) within(field string, n, least, most int64) {
	switch {
	case n < least:
		w.add(field, seckill.RuleMin, strconv.FormatInt(least, 10))
	case n > most:
		w.add(field, seckill.RuleMax, strconv.FormatInt(most, 10))
	}
}

// Check says everything that is wrong with an activity that is to be created, by the
// names of the API's fields. Of an activity's fields it looks at those that the
// API's caller gives; Total is the stock.
func (o *Operator) Check(a seckill.Activity) []seckill.FieldError {
	var w wrong
	w.text("name", a.Name, NameBytesMax, false)
	if strings.TrimSpace(a.Name) == "" {
		w.add("name", seckill.RuleRequired, "")
	}
	w.text("description", a.Description, DescriptionBytesMax, true)
	w.within("price_cents", a.PriceCents, 0, PriceCentsMax)
	w.within("limit_per_user", int64(a.LimitPerUser), 1, LimitMax)
	w.within("sub_stocks", int64(a.SubStocks), 1, SubStocksMax)
	w.within("preload_before_seconds", seconds(a.PreloadBefore), 0, seconds(PreloadBeforeMax))
	w.within("payment_window_seconds", seconds(a.PaymentWindow), 1, seconds(PaymentWindowMax))
	if a.Audience != seckill.AudienceEveryone && a.Audience != seckill.AudienceListed {
		w.add("audience", seckill.RuleOneOf, string(seckill.AudienceEveryone)+", "+string(seckill.AudienceListed))
	}
	return append(w, o.CheckRun(a.StartsAt, a.EndsAt, a.Total)...)
}

// CheckRun says everything that is wrong with a run that is to be created.
func (o *Operator) CheckRun(startsAt, endsAt time.Time, units int64) []seckill.FieldError {
	var w wrong
	w.within("stock", units, 1, StockMax)
	starts := w.moment("starts_at", startsAt)
	ends := w.moment("ends_at", endsAt)
	switch {
	case !ends:
	case starts && !endsAt.After(startsAt):
		w.add("ends_at", seckill.RuleAfter, "starts_at")
	case !endsAt.After(time.Now()):
		w.add("ends_at", seckill.RuleAfter, "now")
	}
	return w
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// text checks what people read. Lines may break only where lines says so.
func (w *wrong) text(field, s string, bytesMax int, lines bool) {
	if len(s) > bytesMax {
		w.add(field, seckill.RuleLength, strconv.Itoa(bytesMax))
	}
	control := func(c rune) bool {
		return unicode.IsControl(c) && (!lines || c != '\n' && c != '\r' && c != '\t')
	}
	if strings.ContainsFunc(s, control) {
		w.add(field, seckill.RuleFormat, "text without control characters")
	}
}

// moment reports whether t is fit to be compared.
func (w *wrong) moment(field string, t time.Time) bool {
	switch {
	case t.Before(timeMin):
		w.add(field, seckill.RuleMin, timeMin.Format(time.RFC3339))
	case t.After(timeMax):
		w.add(field, seckill.RuleMax, timeMax.Format(time.RFC3339))
	default:
		return true
	}
	return false
}
