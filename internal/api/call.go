package api

import (
	"log/slog"
	"net/netip"
	"strconv"
	"time"
	"unsafe"

	"github.com/valyala/fasthttp"

	"seckill"
	"seckill/internal/auth"
	"seckill/internal/gate"
	"seckill/internal/problem"
	"seckill/internal/tracing"
)

// call is one request under way. It is used again and again; every string in it is a view
// of the engine's buffers, and dies with the request.
type call struct {
	s    *Server
	ctx  *fasthttp.RequestCtx
	now  time.Time
	lang problem.Lang
	headers
	trace *tracing.Purchase // Nil unless it is a purchase that is traced.

	want    gate.Request
	scratch []byte
	refusal seckill.Refusal // Room for one that says more than its reason.
}

// headers are those that this program reads, taken in one pass.
type headers struct {
	identity       string // Of the authenticator's header.
	key            string // Idempotency-Key.
	device         string // X-Device-Id.
	ifNoneMatch    string
	lastEventID    string
	acceptEncoding string
	forwardedFor   string // X-Forwarded-For and Forwarded; "" unless proxies are trusted.
	forwarded      string
	proxied        bool // One of them is there, and nobody is believed about it.
	traceparent    string
	hasKey         bool
	hasIdentity    bool
	hasDevice      bool
	hasTraceparent bool
	repeated       string // The name of a header that was given more than once, and must not be.
}

// deviceBytesMax bounds X-Device-Id.
const deviceBytesMax = 128

func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// begin expects a call that is new, or that was ended.
func (c *call) begin(s *Server, ctx *fasthttp.RequestCtx) {
	c.s, c.ctx, c.now = s, ctx, s.o.Now()
	identity := s.o.Auth.Header()
	language := ""
	for k, v := range ctx.Request.Header.All() {
		name, value := view(k), view(v)
		if name == identity {
			c.once(identity, &c.identity, &c.hasIdentity, value)
			continue
		}
		switch name {
		case "Idempotency-Key":
			c.once("Idempotency-Key", &c.key, &c.hasKey, value)
		case "X-Device-Id":
			c.once("X-Device-Id", &c.device, &c.hasDevice, value)
		case "Accept-Language":
			language = value
		case "If-None-Match":
			c.ifNoneMatch = value
		case "Last-Event-Id":
			c.lastEventID = value
		case "Accept-Encoding":
			c.acceptEncoding = value
		case "X-Forwarded-For":
			c.forwardedFor = c.joined(c.forwardedFor, value)
		case "Forwarded":
			c.forwarded = c.joined(c.forwarded, value)
		case "Traceparent":
			c.traceparent = c.single(value)
		}
	}
	c.lang = problem.Negotiate(language)
}

// joined is a list that may come in several lines; none is read unless there is a proxy to believe.
func (c *call) joined(list, line string) string {
	switch {
	case len(c.s.o.Proxies) == 0:
		c.proxied = true
		return ""
	case list == "":
		return line
	}
	return list + "," + line
}

// single is a traceparent, unless it is not the only one: then none counts.
func (h *headers) single(value string) string {
	if h.hasTraceparent {
		return ""
	}
	h.hasTraceparent = true
	return value
}

func (h *headers) once(name string, to *string, seen *bool, value string) {
	if *seen && h.repeated == "" {
		h.repeated = name
	}
	*to, *seen = value, true
}

// end lets go of everything that belongs to others.
func (c *call) end() {
	c.ctx, c.trace = nil, nil
	c.headers = headers{}
	c.want = gate.Request{}
	c.refusal = seckill.Refusal{}
	if cap(c.scratch) > 64<<10 {
		c.scratch = nil
	}
}

// badHeader says what is wrong with the headers of a purchase, if anything is.
func (c *call) badHeader() *seckill.Refusal {
	switch {
	case c.repeated != "":
		return seckill.Invalid(c.repeated, seckill.RuleRepeated, "")
	case c.hasKey && len(c.key) > seckill.KeyBytesMax:
		return seckill.Invalid("Idempotency-Key", seckill.RuleLength, strconv.Itoa(seckill.KeyBytesMax))
	case c.hasKey && !seckill.ValidKey(c.key):
		return seckill.Invalid("Idempotency-Key", seckill.RuleFormat, "1 to 255 printable ASCII characters")
	case len(c.device) > deviceBytesMax:
		return seckill.Invalid("X-Device-Id", seckill.RuleLength, strconv.Itoa(deviceBytesMax))
	case !printable(c.device):
		return seckill.Invalid("X-Device-Id", seckill.RuleFormat, "printable ASCII characters")
	}
	return nil
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// buyer tells who asks. The string may be a view.
func (c *call) buyer() (string, *seckill.Refusal) {
	if c.repeated != "" {
		return "", seckill.Invalid(c.repeated, seckill.RuleRepeated, "")
	}
	buyer, err := c.s.o.Auth.Buyer(c.identity, c.peer())
	if err != nil {
		return "", c.s.refusalOf("telling who the buyer is", err)
	}
	return buyer, nil
}

// buyerOr is buyer for a request whose body may say who the buyer is, where callers are
// believed.
func (c *call) buyerOr(claimed string) (string, *seckill.Refusal) {
	switch {
	case claimed == "":
		return c.buyer()
	case c.hasIdentity && c.identity != claimed:
		return "", seckill.Invalid("user_id", seckill.RuleOneOf, "the same as in "+c.s.o.Auth.Header())
	case !seckill.ValidBuyer(claimed):
		return "", seckill.Invalid("user_id", seckill.RuleFormat, auth.BuyerForm)
	}
	return claimed, nil
}

func (c *call) peer() netip.Addr {
	if known, ok := c.ctx.Conn().(*conn); ok {
		return known.peer
	}
	return addrOf(c.ctx.RemoteAddr())
}

// client is where the request came from, as far as that can be believed.
func (c *call) client() netip.Addr {
	peer := c.peer()
	if len(c.s.o.Proxies) == 0 {
		return peer
	}
	return c.s.o.Proxies.Client(peer, c.forwardedFor, c.forwarded)
}

// tellLimits says in the headers how the caller stands with the limits, where that is worth the bytes: if he was
// let through, or was too fast.
func (c *call) tellLimits(ref *seckill.Refusal) {
	if ref != nil && ref.Reason != seckill.RateLimited {
		return
	}
	if ref != nil && c.proxied && c.s.gate.LimitedByAddress(&c.want) {
		c.s.proxyOnce.Do(func() {
			c.s.o.Log.Warn("buyers are refused by the address of a proxy, which all of them share: name it with --trusted-proxies")
		})
	}
	var policyRoom, stateRoom [128]byte
	policy, state := c.s.gate.AppendLimits(policyRoom[:0], stateRoom[:0], &c.want)
	if len(policy) > 0 {
		c.ctx.Response.Header.SetCanonical(hLimitPolicy, policy)
		c.ctx.Response.Header.SetCanonical(hLimit, state)
	}
}

// refusalOf turns an error into what the caller hears; unknown ones are logged.
func (s *Server) refusalOf(what string, err error, about ...slog.Attr) *seckill.Refusal {
	ref := problem.Of(err)
	if ref == problem.Plain(seckill.Busy) {
		s.unknown(what, err, about)
	}
	return ref
}

// Header names and values, as the engine takes them.
var (
	hCacheControl    = []byte("Cache-Control")
	hContentLanguage = []byte("Content-Language")
	hETag            = []byte("Etag")
	hLocation        = []byte("Location")
	hRetryAfter      = []byte("Retry-After")
	hAllow           = []byte("Allow")
	hVary            = []byte("Vary")
	hNoSniff         = []byte("X-Content-Type-Options")
	hLimitPolicy     = []byte("Ratelimit-Policy")
	hLimit           = []byte("Ratelimit")
	hAuthenticate    = []byte("Www-Authenticate")
	vNoStore         = []byte("no-store")
	vNoSniff         = []byte("nosniff")
	vBearer          = []byte("Bearer")
	vJSON            = []byte("application/json")
	vProblem         = []byte(problem.ContentType)
	vLanguages       = [...][]byte{problem.EN: []byte("en"), problem.ZH: []byte("zh")}
)

// refuse answers with a refusal.
func (c *call) refuse(ref *seckill.Refusal) { c.s.writeProblem(c.ctx, ref, 0, c.lang) }

// writeProblem answers with a refusal; a status of 0 means that of its reason.
func (s *Server) writeProblem(ctx *fasthttp.RequestCtx, ref *seckill.Refusal, status int, lang problem.Lang) {
	res := &ctx.Response
	if status == 0 {
		status = ref.Reason.Status()
	}
	res.SetStatusCode(status)
	h := &res.Header
	h.SetContentTypeBytes(vProblem)
	h.SetCanonical(hContentLanguage, vLanguages[lang])
	h.SetCanonical(hCacheControl, vNoStore)
	h.SetCanonical(hNoSniff, vNoSniff)
	if after := problem.RetryAfter(ref); after > 0 {
		var digits [20]byte
		h.SetCanonical(hRetryAfter, strconv.AppendInt(digits[:0], int64(after), 10))
	}
	if status == fasthttp.StatusUnauthorized && s.o.Auth.Header() == "Authorization" {
		h.SetCanonical(hAuthenticate, vBearer)
	}
	if body, ok := problem.Prebuilt(ref, lang); ok && status == ref.Reason.Status() {
		res.SetBodyRaw(body)
		return
	}
	res.SwapBody(problem.Append(res.SwapBody(nil)[:0], ref, status, lang))
}

// json answers with a body of which the engine takes a copy.
func (c *call) json(status int, body []byte) {
	c.ctx.Response.SetStatusCode(status)
	h := &c.ctx.Response.Header
	h.SetContentTypeBytes(vJSON)
	h.SetCanonical(hCacheControl, vNoStore)
	h.SetCanonical(hNoSniff, vNoSniff)
	c.ctx.Response.SetBody(body)
}
