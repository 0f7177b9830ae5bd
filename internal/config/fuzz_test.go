package config

import (
	"net"
	"strings"
	"testing"
	"unicode/utf8"
)

// No value, for any setting, breaks a parser, takes more than a line to refuse, or is
// accepted outside the bounds.
func FuzzValues(f *testing.F) {
	for _, s := range []string{
		"", "open", "10/s:20", "off", "127.0.0.1:8080", "mysql://u:p@h:1/n", "sqlite:x", "jwt:jwks:https://h/k", "header:X", "10.0.0.0/8,::1",
		"gateway,worker,console", "2s", "true", "embedded", "redis://h", "\x00", "１０/s:１", "1/s:1/s:1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if strings.Contains(value, "@") {
			return // It may name a file of the machine.
		}
		for i := range settings {
			l := &loader{given: map[string]given{settings[i].name: {name: "--" + settings[i].name, value: value}}}
			c, failed := l.parse()
			c.check(flagName, failed)
			for _, m := range l.mistakes {
				if strings.ContainsAny(m.Error(), "\r\n") || !utf8.ValidString(m.Error()) && utf8.ValidString(value) {
					t.Errorf("%q is refused in more than a line: %q", value, m.Error())
				}
			}
			if !c.LimitIP.Off() && !c.LimitIP.valid() {
				t.Errorf("%q was accepted as %+v", value, c.LimitIP)
			}
			if _, _, err := net.SplitHostPort(c.Listen); err != nil {
				t.Errorf("%q was accepted as an address", value)
			}
		}
	})
}

// No file, whatever is in it, breaks the reader, or is refused without a line for each mistake.
func FuzzFile(f *testing.F) {
	for _, s := range []string{"", "listen: ':1'", "roles: [a, b]", "a: &a [*a]", "<<: {a: b}", "? {}\n: 1", "---\n---\n", "listen: |\n  x\n  y"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		l := &loader{given: map[string]given{}}
		l.document("file", body)
		for _, m := range l.mistakes {
			if strings.ContainsAny(m.Error(), "\r\n") {
				t.Errorf("more than a line: %q", m.Error())
			}
		}
	})
}
