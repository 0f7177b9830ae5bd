package tidy

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

const (
	fileLinesMax = 500
	funcLinesMax = 70
)

// longFiles and longFuncs may be longer, for the reason given. A function is
// named "folder.Name" or "folder.Type.Name". One that is short again must go.
var (
	longFiles = map[string]string{}
	longFuncs = map[string]string{}
)

// vague names say nothing about what is inside, or hide a standard package.
var vague = []string{
	"base", "common", "context", "errors", "helper", "helpers", "http", "log",
	"misc", "model", "models", "types", "util", "utils",
}

func TestNothingGrowsTooLong(t *testing.T) {
	holds(t, tooLong(repository(t), longFiles, longFuncs))
}

// Wiring is done where it can be read, never by importing.
func TestNoInit(t *testing.T) {
	holds(t, inits(repository(t)))
}

func TestPackageNamesSaySomething(t *testing.T) {
	holds(t, vagueNames(repository(t)))
}

// A test that sleeps is slow, or wrong on a slow machine: await a condition, or
// let testing/synctest move the clock (there, wait with time.After).
func TestTestsDoNotSleep(t *testing.T) {
	holds(t, sleeps(repository(t), directions))
}

// A skip may hide a missing service. testenv skips only where that is allowed.
func TestOnlyTestenvSkips(t *testing.T) {
	holds(t, skips(repository(t)))
}

func tooLong(tr *tree, files, funcs map[string]string) (complaints []string) {
	used := map[string]bool{}
	for _, s := range tr.sources {
		if s.lines > fileLinesMax {
			used[s.path] = true
			if files[s.path] == "" {
				complaints = append(complaints, fmt.Sprintf("%s has %d lines, more than %d", s.path, s.lines, fileLinesMax))
			}
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
			if lines <= funcLinesMax {
				continue
			}
			name := s.pkg + "." + funcName(f)
			used[name] = true
			if funcs[name] == "" {
				complaints = append(complaints, fmt.Sprintf("%s: %s has %d lines, more than %d", s.at(f), name, lines, funcLinesMax))
			}
		}
	}
	for _, list := range []map[string]string{files, funcs} {
		for name := range list {
			if !used[name] {
				complaints = append(complaints, fmt.Sprintf("%s is not long (any more), but has an exception", name))
			}
		}
	}
	return complaints
}

// funcName is "Name", or "Type.Name" for a method.
func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	return receiver(f.Recv.List[0].Type) + "." + f.Name.Name
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func inits(tr *tree) (complaints []string) {
	for _, s := range tr.sources {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				complaints = append(complaints, s.at(f)+": func init; do it where it is needed")
			}
		}
	}
	return complaints
}

func vagueNames(tr *tree) (complaints []string) {
	for _, s := range tr.sources {
		name := strings.TrimSuffix(s.file.Name.Name, "_test")
		if slices.Contains(vague, name) {
			complaints = append(complaints, fmt.Sprintf("%s: a package named %s", s.pkg, name))
		}
	}
	return complaints
}

func sleeps(tr *tree, rules []direction) (complaints []string) {
	for _, s := range tr.sources {
		rule, _ := ruleFor(rules, s.pkg)
		name := s.importName("time")
		if !s.test && !rule.tests || name == "" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			// The name alone counts too: it may be handed on to be called elsewhere.
			if x, sel := selector(n); x == name && sel == "Sleep" || name == "." && sel == "" && identifier(n) == "Sleep" {
				complaints = append(complaints, s.at(n)+": time.Sleep in a test")
			}
			return true
		})
	}
	return complaints
}

func skips(tr *tree) (complaints []string) {
	for _, s := range tr.sources {
		name := s.importName("testing")
		if s.pkg == "internal/testenv" || name == "" {
			continue
		}
		testers := testers(s.file, name)
		ast.Inspect(s.file, func(n ast.Node) bool {
			x, sel := selector(n)
			if slices.Contains(testers, x) && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel) {
				complaints = append(complaints, fmt.Sprintf("%s: %s.%s; ask testenv for what the test needs", s.at(n), x, sel))
			}
			return true
		})
	}
	return complaints
}

// testers lists the names that the file gives to a *testing.T and its kin.
func testers(file *ast.File, testing string) (names []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok {
			return true
		}
		typ := field.Type
		if star, ok := typ.(*ast.StarExpr); ok {
			typ = star.X
		}
		if x, sel := selector(typ); x == testing && slices.Contains([]string{"T", "B", "F", "TB"}, sel) {
			for _, name := range field.Names {
				names = append(names, name.Name)
			}
		}
		return true
	})
	return names
}

// selector takes x.sel apart; both are "" for anything else.
func selector(n ast.Node) (x, sel string) {
	e, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	id, ok := e.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return id.Name, e.Sel.Name
}

func identifier(n ast.Node) string {
	if id, ok := n.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func TestCodeRulesCatch(t *testing.T) {
	one := func(name, text string) *tree { return madeUp(t, map[string]string{name: text}) }

	long := "package stock\n" + strings.Repeat("// More.\n", fileLinesMax)
	catches(t, tooLong(one("stock/stock.go", long), nil, nil), "stock/stock.go has 501 lines")
	holds(t, tooLong(one("stock/stock.go", long), map[string]string{"stock/stock.go": "to try it"}, nil))

	wide := "package stock\n\nfunc (s *Store[T]) Reserve() {\n" + strings.Repeat("\tg()\n", funcLinesMax-1) + "}\n"
	catches(t, tooLong(one("stock/stock.go", wide), nil, nil), "stock.Store.Reserve has 71 lines")
	holds(t, tooLong(one("stock/stock.go", wide), nil, map[string]string{"stock.Store.Reserve": "to try it"}))
	catches(t, tooLong(one("stock/stock.go", "package stock"), nil, map[string]string{"stock.Gone": "gone"}), "stock.Gone is not long")

	catches(t, inits(one("queue/queue.go", "package queue\nfunc init() {}")), "queue/queue.go:2: func init")
	holds(t, inits(one("queue/queue.go", "package queue\nfunc (q Q) init() {}")))

	catches(t, vagueNames(one("internal/http/x_test.go", "package http_test")), "a package named http")

	catches(t, sleeps(one("queue/queue_test.go", "package queue\nimport clock \"time\"\nvar nap = clock.Sleep"), directions), "queue/queue_test.go:3")
	catches(t, sleeps(one("stock/stocktest/run.go", "package stocktest\nimport \"time\"\nfunc f() { time.Sleep(1) }"), directions), "time.Sleep")
	catches(t, sleeps(one("queue/queue_test.go", "package queue\nimport . \"time\"\nfunc f() { Sleep(1) }"), directions), "time.Sleep")
	holds(t, sleeps(one("queue/queue.go", "package queue\nimport \"time\"\nfunc f() { time.Sleep(1) }"), directions))

	catches(t, skips(one("queue/queue_test.go", "package queue\nimport \"testing\"\nfunc TestX(t *testing.T) { t.Skipf(\"no\") }")), "t.Skipf")
	catches(t, skips(one("queue/queuetest/run.go", "package queuetest\nimport \"testing\"\nfunc f(tb testing.TB) { tb.SkipNow() }")), "tb.SkipNow")
	holds(t, skips(one("internal/testenv/redis.go", "package testenv\nimport \"testing\"\nfunc Redis(t *testing.T) { t.Skip(\"no\") }")))
	holds(t, skips(one("queue/queue_test.go", "package queue\nimport \"testing\"\nfunc f(t *testing.T, r reader) { r.Skip(1) }")))
}
