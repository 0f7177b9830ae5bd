package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

const fileBytesMax = 1 << 20

var lineNumber = regexp.MustCompile(`line \d+`)

// file reads the YAML file that a flag or a variable names.
func (l *loader) file(from given) {
	const accepted = "a YAML file of settings such as `admin_listen: 127.0.0.1:8081`, up to 1 MiB"
	f, err := os.Open(from.value)
	if err != nil {
		l.mistake(from.name, fmt.Sprintf("%q cannot be opened (%s)", from.value, bare(err)), accepted)
		return
	}
	defer func() { _ = f.Close() }()
	body, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	switch {
	case err != nil:
		l.mistake(from.name, fmt.Sprintf("%q cannot be read (%s)", from.value, bare(err)), accepted)
	case len(body) > fileBytesMax:
		l.mistake(from.name, fmt.Sprintf("%q is longer than 1 MiB", from.value), accepted)
	default:
		l.document(from.value, body)
	}
}

// document takes the settings out of the text of a file.
func (l *loader) document(name string, body []byte) {
	const accepted = "one mapping of settings to values"
	d := yaml.NewDecoder(bytes.NewReader(body))
	var root, more yaml.Node
	err := d.Decode(&root)
	if errors.Is(err, io.EOF) {
		return // Empty, or comments only.
	}
	if err == nil {
		if err = d.Decode(&more); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			l.mistake(name, "holds more than one document", accepted)
			return
		}
	}
	if err != nil {
		// Of yaml's message only the place: the rest may quote a secret.
		l.mistake(name, strings.TrimSpace("is not YAML "+lineNumber.FindString(err.Error())), accepted)
		return
	}
	top := root.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return
	}
	if top.Kind != yaml.MappingNode {
		l.mistake(name, "is not a mapping", accepted)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		where := fmt.Sprintf("%s in %s, line %d", key.Value, name, key.Line)
		s := lookup(func(s *setting) bool { return s.key() == key.Value })
		switch {
		case key.Kind != yaml.ScalarNode || s == nil:
			l.mistake(strings.TrimSpace(where), "is not a setting", l.known(key.Value, func(n string) string { return (&setting{name: n}).key() }))
		case seen[s.name]:
			l.mistake(where, "is there twice", "each setting once")
		default:
			seen[s.name] = true
			l.value(s, where, value)
		}
	}
}

// value takes one scalar, or a list where the setting is one.
func (l *loader) value(s *setting, where string, n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	list := s.name == "roles" || s.name == "trusted-proxies"
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		l.mistake(where, "has no value", "a value, or no such line")
	case n.Kind == yaml.ScalarNode && n.Value == "":
		l.mistake(where, "is empty", "a value, or no such line")
	case n.Kind == yaml.ScalarNode:
		l.give(s.name, given{name: where, value: n.Value})
	case n.Kind == yaml.SequenceNode && list && len(n.Content) > 0:
		var parts []string
		for _, part := range n.Content {
			if part.Kind != yaml.ScalarNode || strings.Contains(part.Value, ",") {
				l.mistake(where, "is not a list of plain values", "a list such as [a, b]")
				return
			}
			parts = append(parts, part.Value)
		}
		l.give(s.name, given{name: where, value: strings.Join(parts, ",")})
	case list:
		l.mistake(where, "is not a list of plain values", "a list such as [a, b]")
	default:
		l.mistake(where, "is not a plain value", "one value after the colon")
	}
}
