package limit

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// PolicyHeader and StateHeader are the fields of draft-ietf-httpapi-ratelimit-headers.
const (
	PolicyHeader = "RateLimit-Policy"
	StateHeader  = "RateLimit"
)

// policyOf is the limit in the header's form: a burst as quota, and the seconds in which it
// comes back as window.
func policyOf(o Options) string {
	return fmt.Sprintf(`"%s";q=%d;w=%d`, o.Name, o.Burst, max(1, int64(math.Ceil(float64(o.Burst)/o.Rate))))
}

// AppendPolicy appends the limit to the value of a RateLimit-Policy header, behind those that
// b holds already.
func (l *Limiter) AppendPolicy(b []byte) []byte {
	if l == nil {
		return b
	}
	return append(separate(b), l.policy...)
}

// AppendState appends a result of the limit to the value of a RateLimit header, behind those
// that b holds already. Its time is that until the whole burst is back or, for a
// request that was refused, until the next may come, as Retry-After says.
func (l *Limiter) AppendState(b []byte, r Result) []byte {
	if l == nil {
		return b
	}
	wait := r.Reset
	if !r.OK {
		wait = r.RetryAfter
	}
	b = append(separate(b), '"')
	b = append(b, l.o.Name...)
	b = append(b, `";r=`...)
	b = strconv.AppendInt(b, int64(r.Remaining), 10)
	b = append(b, ";t="...)
	return strconv.AppendInt(b, Seconds(wait), 10)
}

func separate(b []byte) []byte {
	if len(b) > 0 {
		return append(b, ", "...)
	}
	return b
}

// Seconds is a wait in whole seconds, rounded up, as Retry-After has it.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
