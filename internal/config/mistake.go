package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Mistake is one thing that is wrong with the settings. It takes one line, and
// never shows the value of a setting that may hold a secret.
type Mistake struct {
	Setting  string // As the user gave it: a flag, a variable, or a file and its key.
	Wrong    string // What is wrong with it.
	Accepted string // What is accepted.
}

// Error is the line.
func (m *Mistake) Error() string {
	return oneLine(fmt.Sprintf("%s: %s; accepted: %s", m.Setting, m.Wrong, m.Accepted))
}

// oneLine takes away what a name from outside could do to a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// Mistakes takes an error of [Load] or [Config.Validate] apart into its lines.
func Mistakes(err error) []string {
	var lines []string
	var walk func(error)
	walk = func(err error) {
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, one := range many.Unwrap() {
				walk(one)
			}
			return
		}
		if err != nil {
			lines = append(lines, err.Error())
		}
	}
	walk(err)
	return lines
}

func join(mistakes []*Mistake) error {
	var errs []error
	for _, m := range mistakes {
		errs = append(errs, m)
	}
	return errors.Join(errs...)
}

// wrong is a mistake whose setting is named by the caller of a parser.
type wrong struct{ what, accepted string }

func (w *wrong) Error() string { return w.what + "; accepted: " + w.accepted }

// nearest returns the candidate that was probably meant, or "".
func nearest(name string, candidates []string) string {
	best, bestAt := "", 4
	for _, c := range candidates {
		if d := distance(name, c); d < bestAt && d < len(name) {
			best, bestAt = c, d
		}
	}
	return best
}

// distance is Levenshtein's, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], slices.Min([]int{row[j+1] + 1, row[j] + 1, diagonal + cost})
		}
	}
	return row[len(b)]
}
