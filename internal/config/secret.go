package config

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is text that must not be seen. However it is printed, logged or encoded,
// it shows as three stars; only [Secret.Reveal] gives it away.
//
// It holds a pointer because fmt does not ask a value how it wants to be printed when
// the value is in an unexported field of another: then it shows an address.
type Secret struct{ text *string }

// NewSecret hides a text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal returns the text, for the one place that needs it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty tells that there is no text.
func (s Secret) Empty() bool { return s.text == nil }

const stars = "***"

// Format hides the text from every verb: without it, %d would show the field.
func (s Secret) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, stars) // There is nobody to tell.
}

// String hides the text from those who ask for it.
func (s Secret) String() string { return stars }

// GoString hides the text from those who print Go.
func (s Secret) GoString() string { return stars }

// MarshalText hides the text from JSON, YAML and other encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(stars), nil }

// LogValue hides the text from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(stars) }
