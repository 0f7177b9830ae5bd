package tracing

import (
	"encoding/hex"

	"go.opentelemetry.io/otel/trace"
)

// The fields of a traceparent: version, trace, parent, flags.
const traceparentBytes = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")

// parseTraceparent reads the header of W3C Trace Context. It allocates nothing. What is not
// well-formed is no context, and no mistake of the caller's that he would hear of.
func parseTraceparent(s string) (caller trace.SpanContext, ok bool) {
	if len(s) < traceparentBytes || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return caller, false
	}
	// Later versions may have more behind the flags.
	version := s[:2]
	if !lowerHex(version) || version == "ff" || len(s) > traceparentBytes && (version == "00" || s[traceparentBytes] != '-') {
		return caller, false
	}
	var c trace.SpanContextConfig
	var flags [1]byte
	if !unhex(c.TraceID[:], s[3:35]) || !unhex(c.SpanID[:], s[36:52]) || !unhex(flags[:], s[53:55]) {
		return caller, false
	}
	c.TraceFlags, c.Remote = trace.TraceFlags(flags[0])&trace.FlagsSampled, true
	caller = trace.NewSpanContext(c)
	return caller, caller.IsValid()
}

func unhex(to []byte, s string) bool {
	if !lowerHex(s) {
		return false
	}
	_, err := hex.Decode(to, []byte(s))
	return err == nil
}

func lowerHex(s string) bool {
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}
