package tidy

import (
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The Makefile leaves some tests out of the run with the race detector, by their names, and runs them without it in
// packages that it lists. None may fall between the two.
func TestWhatIsLeftOutOfTheRaceRunIsRun(t *testing.T) {
	tr := repository(t)
	text, err := fs.ReadFile(tr.fsys, "Makefile")
	if err != nil {
		t.Fatal(err)
	}
	holds(t, neverRun(tr, string(text)))

	made := madeUp(t, map[string]string{
		"a/a_test.go": "package a\nfunc TestMany() {}", "b/b_test.go": "package b\nfunc TestManyMore() {}\nfunc TestFew() {}",
		"internal/e2e/e_test.go": "package e2e\nfunc TestMany() {}",
	})
	got := neverRun(made, "PLAIN_TESTS := TestMany|TestNone$$/Part\nPLAIN_PACKAGES := ./a\n")
	want := []string{
		"Makefile: PLAIN_TESTS leaves out TestManyMore, but PLAIN_PACKAGES has no ./b",
		"Makefile: PLAIN_TESTS names TestNone$, and there is no such test",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func neverRun(tr *tree, makefile string) (complaints []string) {
	setting := func(name string) string {
		_, rest, _ := strings.Cut(makefile, "\n"+name+" := ")
		if strings.HasPrefix(makefile, name+" := ") {
			rest = makefile[len(name+" := "):]
		}
		line, _, _ := strings.Cut(rest, "\n")
		return strings.ReplaceAll(line, "$$", "$")
	}
	// A pattern's part after a slash names a part of a test, which is run where the test is.
	unused := map[string]*regexp.Regexp{}
	for _, p := range alternatives(setting("PLAIN_TESTS")) {
		name, _, _ := strings.Cut(p, "/")
		unused[name] = regexp.MustCompile(name)
	}
	patterns := maps.Clone(unused)
	packages := strings.Fields(setting("PLAIN_PACKAGES"))
	for _, s := range tr.sources {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !s.test || f.Recv != nil || s.pkg == "internal/e2e" { // All of that is run without.
				continue
			}
			for name, pattern := range patterns {
				if !pattern.MatchString(f.Name.Name) {
					continue
				}
				delete(unused, name)
				if !slices.Contains(packages, "./"+s.pkg) {
					complaints = append(complaints, fmt.Sprintf("Makefile: PLAIN_TESTS leaves out %s, but PLAIN_PACKAGES has no ./%s", f.Name.Name, s.pkg))
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		complaints = append(complaints, fmt.Sprintf("Makefile: PLAIN_TESTS names %s, and there is no such test", name))
	}
	return complaints
}

// alternatives splits a pattern where no parenthesis is open, as go test does.
func alternatives(pattern string) (all []string) {
	open, from := 0, 0
	for i, c := range pattern {
		switch {
		case c == '(':
			open++
		case c == ')':
			open--
		case c == '|' && open == 0:
			all, from = append(all, pattern[from:i]), i+1
		}
	}
	return append(all, pattern[from:])
}
