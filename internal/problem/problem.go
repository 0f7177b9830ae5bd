// Package problem says no over HTTP: it turns a [seckill.Refusal] into
// application/problem+json (RFC 9457) in the caller's language. It decides
// nothing, counts nothing and logs nothing. The public and the admin listener use it.
package problem

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"seckill"
)

// ContentType of every answer that is made here.
const ContentType = "application/problem+json"

// typePrefix comes before the reason in the problem's type. A URN says honestly
// that there is no page to fetch.
const typePrefix = "urn:seckill:problem:"

// Of finds the refusal that err stands for: the *[seckill.Refusal] in it, not found
// for [seckill.ErrNotFound], and busy for every other error, whose effect is unknown. The
// refusal may be shared: it must not be changed.
func Of(err error) *seckill.Refusal {
	var ref *seckill.Refusal
	switch {
	case errors.As(err, &ref) && ref != nil:
		return ref
	case errors.Is(err, seckill.ErrNotFound):
		return Plain(seckill.NotFound)
	default:
		return Plain(seckill.Busy)
	}
}

// Plain is the shared refusal for a reason alone; it must not be changed.
func Plain(r seckill.Reason) *seckill.Refusal { return plain[r] }

var plain = func() (refs [seckill.Reasons]*seckill.Refusal) {
	for i := range refs {
		refs[i] = seckill.Refuse(seckill.Reason(i))
	}
	return refs
}()

// prebuilt holds the bodies of refusals that say nothing but their reason.
var prebuilt = func() (bodies [langs][seckill.Reasons][]byte) {
	for l := range bodies {
		for i := range bodies[l] {
			r := seckill.Reason(i)
			bodies[l][i] = append(appendHead(nil, plain[i], r.Status(), Lang(l)), '}')
		}
	}
	return bodies
}()

// Encode returns the body for a refusal. It may be shared: it must not be changed.
func Encode(ref *seckill.Refusal, l Lang) []byte {
	if body, ok := Prebuilt(ref, l); ok {
		return body
	}
	return appendBody(nil, ref, ref.Reason.Status(), l)
}

// Prebuilt returns the body for a refusal that says nothing but its reason. It is
// shared: it must not be changed.
func Prebuilt(ref *seckill.Refusal, l Lang) (body []byte, ok bool) {
	if !isPlain(ref) {
		return nil, false
	}
	return prebuilt[l][ref.Reason], true
}

// Append adds the body for a refusal to dst, without an allocation of its own. A
// status of 0 means that of the reason; HTTP itself asks for others (405, 431).
func Append(dst []byte, ref *seckill.Refusal, status int, l Lang) []byte {
	if status == 0 {
		status = ref.Reason.Status()
	}
	if isPlain(ref) && status == ref.Reason.Status() {
		return append(dst, prebuilt[l][ref.Reason]...)
	}
	return appendBody(dst, ref, status, l)
}

func isPlain(ref *seckill.Refusal) bool {
	return len(ref.Fields) == 0 && ref.Detail == "" && ref.Ticket == "" && ref.StartsAt.IsZero()
}

// appendBody begins with what is prebuilt, but its last brace, where that says the same.
func appendBody(dst []byte, ref *seckill.Refusal, status int, l Lang) []byte {
	if built := prebuilt[l][ref.Reason]; len(ref.Fields) == 0 && status == ref.Reason.Status() {
		dst = append(dst, built[:len(built)-1]...)
	} else {
		dst = appendHead(dst, ref, status, l)
	}
	return appendRest(dst, ref, l)
}

func appendHead(dst []byte, ref *seckill.Refusal, status int, l Lang) []byte {
	reason := ref.Reason.String()
	dst = append(dst, `{"type":"`+typePrefix...)
	dst = append(dst, reason...)
	dst = append(dst, `","title":`...)
	dst = AppendString(dst, texts[ref.Reason].title)
	dst = append(dst, `,"status":`...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, `,"reason":"`...)
	dst = append(dst, reason...)
	dst = append(dst, `","msg":`...)
	if len(ref.Fields) > 0 {
		dst = AppendString(dst, fieldsMsg(ref.Fields, l))
	} else {
		dst = AppendString(dst, Msg(ref.Reason, l))
	}
	return dst
}

func appendRest(dst []byte, ref *seckill.Refusal, l Lang) []byte {
	if ref.Detail != "" {
		dst = append(dst, `,"detail":`...)
		dst = AppendString(dst, ref.Detail)
	}
	if len(ref.Fields) > 0 {
		dst = append(dst, `,"errors":[`...)
		for i, f := range ref.Fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendField(dst, f, l)
		}
		dst = append(dst, ']')
	}
	if ref.Ticket != "" {
		dst = append(dst, `,"ticket":`...)
		dst = AppendString(dst, ref.Ticket)
	}
	if !ref.StartsAt.IsZero() {
		dst = append(dst, `,"starts_at":"`...)
		dst = ref.StartsAt.UTC().AppendFormat(dst, time.RFC3339Nano)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

func appendField(dst []byte, f seckill.FieldError, l Lang) []byte {
	dst = append(dst, `{"field":`...)
	dst = AppendString(dst, f.Field)
	dst = append(dst, `,"rule":`...)
	dst = AppendString(dst, string(f.Rule))
	if f.Arg != "" {
		dst = append(dst, `,"expected":`...)
		dst = AppendString(dst, f.Arg)
	}
	dst = append(dst, `,"msg":`...)
	dst = AppendString(dst, FieldMsg(f, l))
	return append(dst, '}')
}

// RetryAfter is what the header of that name says, in whole seconds; 0 means that it is
// left out. A 429 and a 503 always have one, spread so that those who were
// refused together do not come back together.
func RetryAfter(ref *seckill.Refusal) int {
	spread := 0
	switch ref.Reason {
	case seckill.Busy, seckill.RateLimited:
		spread = 3
	case seckill.Paused:
		spread = 10
	default:
		if ref.RetryAfter <= 0 {
			return 0
		}
	}
	if ref.RetryAfter > 0 {
		// Never earlier than what was asked for.
		least := int((ref.RetryAfter + time.Second - 1) / time.Second)
		return least + rand.IntN(1+least/4)
	}
	return 1 + rand.IntN(spread)
}

// Write answers a request on net/http with a refusal.
func Write(w http.ResponseWriter, r *http.Request, ref *seckill.Refusal) {
	l := Negotiate(r.Header.Get("Accept-Language"))
	body := Encode(ref, l)
	h := w.Header()
	h.Set("Content-Type", ContentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Content-Language", l.Tag())
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Del("ETag")
	if after := RetryAfter(ref); after > 0 {
		h.Set("Retry-After", strconv.Itoa(after))
	}
	if ref.Reason == seckill.Unauthenticated {
		h.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(ref.Reason.Status())
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // A caller that has gone cannot be told.
	}
}
