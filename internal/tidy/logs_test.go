package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// vocabulary is the document that names what lines of the log may be about.
const vocabulary = "docs/operating/logs.md"

// Lines of the log call the same thing by the same name, whichever package writes them: each name is in the
// document's table, and what is in the table is in use.
func TestLogsHaveOneVocabulary(t *testing.T) {
	tr := repository(t)
	holds(t, wrongWords(tr, vocabularyOf(t, tr)))
}

var wordRow = regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+`(?:, )?)+) \\|")

// vocabularyOf reads the names in the first column of the table. Three are slog's own.
func vocabularyOf(t *testing.T, tr *tree) map[string]bool {
	t.Helper()
	page, err := fs.ReadFile(tr.fsys, vocabulary)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "### The vocabulary\n")
	table, _, _ = strings.Cut(table, "\n## ")
	words := map[string]bool{}
	for _, row := range wordRow.FindAllStringSubmatch(table, -1) {
		for word := range strings.SplitSeq(row[1], ", ") {
			words[strings.Trim(word, "`")] = false
		}
	}
	for _, own := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
		if _, ok := words[own]; !ok {
			t.Errorf("%s does not explain %q", vocabulary, own)
		}
		words[own] = true
	}
	return words
}

// wrongWords finds names that are not in the vocabulary, and those of it that nobody uses.
func wrongWords(tr *tree, words map[string]bool) (complaints []string) {
	used := maps.Clone(words)
	for _, s := range tr.sources {
		// What the load generator and other commands print is for people.
		if s.test || strings.HasPrefix(s.pkg, "internal/tidy") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for _, word := range wordsIn(call) {
				if _, ok := words[word]; !ok {
					complaints = append(complaints, fmt.Sprintf("%s:%d: a line of the log is about %q, which is not in %s",
						s.path, s.fset.Position(call.Pos()).Line, word, vocabulary))
				}
				used[word] = true
			}
			return true
		})
	}
	for _, word := range slices.Sorted(maps.Keys(words)) {
		if !used[word] {
			complaints = append(complaints, fmt.Sprintf("%s explains %q, which no line of the log has", vocabulary, word))
		}
	}
	return complaints
}

// levels are the methods of a logger, with how many arguments come before the first name.
var levels = map[string]int{"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "warn": 1, "With": 0}

// attributes are the functions of slog that name something.
var attributes = []string{"String", "Int", "Int64", "Uint64", "Float64", "Bool", "Time", "Duration", "Any", "Group"}

// wordsIn are the names in one call, if it is about the log.
func wordsIn(call *ast.CallExpr) (words []string) {
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	of := lastName(fun.X)
	if of == "slog" {
		if slices.Contains(attributes, fun.Sel.Name) && len(call.Args) > 0 {
			words = append(words, literals(call.Args[:1])...)
		}
		return words
	}
	first, isLevel := levels[fun.Sel.Name]
	if !isLevel || !strings.EqualFold(of, "log") || len(call.Args) <= first {
		return nil
	}
	for i := first; i < len(call.Args); i += 2 {
		if _, isCall := call.Args[i].(*ast.CallExpr); isCall {
			i-- // An attribute is one argument. It is looked at by itself.
			continue
		}
		words = append(words, literals(call.Args[i:i+1])...)
	}
	return words
}

func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func literals(args []ast.Expr) (texts []string) {
	for _, a := range args {
		if l, ok := a.(*ast.BasicLit); ok && l.Kind == token.STRING {
			text, err := strconv.Unquote(l.Value)
			if err == nil {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

func TestLogRulesCatch(t *testing.T) {
	words := map[string]bool{"error": false, "run": false}
	in := func(body string) *tree {
		return madeUp(t, map[string]string{"internal/a/a.go": "package a; func f() {" + body + "}"})
	}
	holds(t, wrongWords(in(`s.o.Log.Warn("failed", "error", err, slog.Int("run", 1)); log.Info("x")`), words))
	catches(t, wrongWords(in(`s.Log.Warn("failed", "error", err, "run", 1, "err", err)`), words), `about "err"`)
	catches(t, wrongWords(in(`s.Log.Warn("failed", slog.Int("run", 1), "err", err, "error", err)`), words), `about "err"`)
	catches(t, wrongWords(in(`s.log.LogAttrs(ctx, l, "failed", slog.Any("error", err), slog.Int("no", 1), slog.Int("run", 1))`), words), `about "no"`)
	catches(t, wrongWords(in(`log.Error("x", "error", err)`), words), `explains "run"`)
}
