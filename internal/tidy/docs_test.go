package tidy

import (
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// planned are names that documents may use before the thing exists. The list
// must be empty when underConstruction ends.
var planned = []string{}

// made are folders that the program or the Makefile makes.
var made = []string{"bin/...", "build/...", "data/...", "coverage/..."}

// unchecked documents speak of what was, too.
var unchecked = []string{"CHANGELOG.md"}

// flagPackages hold the flags of the command line as string literals.
var flagPackages = []string{"internal/config", "internal/cli", "internal/bench", "internal/plan"}

// documentRules are the checks of one document, by name.
var documentRules = map[string]func(*tree, document) []string{
	"paths":   missingPaths,
	"symbols": missingSymbols,
	"targets": missingTargets,
	"links":   brokenLinks,
	"flags":   missingFlags,
}

func TestDocumentsNameWhatExists(t *testing.T) {
	tr := repository(t)
	for rule, check := range documentRules {
		t.Run(rule, func(t *testing.T) {
			for _, doc := range documents(t, tr) {
				holds(t, check(tr, doc))
			}
		})
	}
}

func TestNothingStaysPlanned(t *testing.T) {
	if !underConstruction && len(planned) > 0 {
		t.Errorf("documents may still name what does not exist: %q", planned)
	}
}

// document is a Markdown file, taken apart.
type document struct {
	path   string
	inline []string // What stands in backticks.
	fenced []string // The lines of fenced blocks.
	text   string   // All else, with the backticks' contents taken out.
}

var (
	inlineCode = regexp.MustCompile("`([^`]+)`")
	fence      = regexp.MustCompile("^\\s*(```|~~~)")
)

func documents(t *testing.T, tr *tree) (docs []document) {
	t.Helper()
	for name := range tr.names {
		inDocs := strings.HasPrefix(name, "docs/") || !strings.Contains(name, "/")
		if path.Ext(name) != ".md" || !inDocs || slices.Contains(unchecked, name) {
			continue
		}
		text, err := fs.ReadFile(tr.fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, parseDocument(name, string(text)))
	}
	return docs
}

func parseDocument(name, text string) document {
	doc := document{path: name}
	var prose strings.Builder
	inFence := false
	for line := range strings.Lines(text) {
		switch {
		case fence.MatchString(line):
			inFence = !inFence
		case inFence:
			doc.fenced = append(doc.fenced, strings.TrimSpace(line))
		default:
			for _, m := range inlineCode.FindAllStringSubmatch(line, -1) {
				doc.inline = append(doc.inline, m[1])
			}
			prose.WriteString(inlineCode.ReplaceAllString(line, "code"))
		}
	}
	doc.text = prose.String()
	return doc
}

var (
	pathLike = regexp.MustCompile(`^[\w.*/-]+$`)
	// Files of ours that a document may name without their folder. Others, such
	// as config.yaml, may be the reader's own.
	bareFiles = []string{".go", ".lua", ".md", ".sql", ".sh"}
)

func missingPaths(tr *tree, doc document) (complaints []string) {
	words := slices.Clone(doc.inline)
	for _, code := range slices.Concat(doc.inline, doc.fenced) {
		words = append(words, strings.FieldsFunc(code, func(r rune) bool {
			return strings.ContainsRune(" \t│├└─►◄()[]{}<>,;:'\"=|", r)
		})...)
	}
	for _, word := range words {
		name, ok := tr.pathIn(word)
		if ok && !tr.exists(doc, name) {
			complaints = append(complaints, fmt.Sprintf("%s names %s, which does not exist", doc.path, word))
		}
	}
	return complaints
}

// pathIn tells whether a word of code means a file or package of ours, and which.
func (tr *tree) pathIn(word string) (name string, ok bool) {
	name = strings.ReplaceAll(word, "…", "...")
	if strings.HasPrefix(name, "/") || strings.HasPrefix(name, "-") || !pathLike.MatchString(name) {
		return "", false
	}
	name = strings.TrimPrefix(strings.TrimPrefix(name, "./"), module+"/")
	name = strings.TrimSuffix(strings.TrimSuffix(name, "/..."), "/")
	if name == "" || name == "." || name == "..." || anyMatches(made, name) {
		return "", false
	}
	first, _, nested := strings.Cut(name, "/")
	if nested {
		return name, tr.topLevel(first)
	}
	return name, path.Ext(name) != name && slices.Contains(bareFiles, path.Ext(name))
}

// topLevel tells a folder of ours, built or planned, from the first part of a
// media type, a time zone or an address.
func (tr *tree) topLevel(first string) bool {
	if tr.names[first] || first == "internal" || first == "cmd" {
		return true
	}
	return slices.ContainsFunc(planned, func(p string) bool { return strings.HasPrefix(p+"/", first+"/") })
}

// exists looks for a name at the root, beside the document, and a bare name anywhere.
func (tr *tree) exists(doc document, name string) bool {
	if underConstruction && anyMatches(planned, name) {
		return true
	}
	bare := !strings.Contains(name, "/")
	for known := range tr.names {
		beside := path.Join(path.Dir(doc.path), name)
		if matches(name, known) || matches(beside, known) || bare && matches(name, path.Base(known)) {
			return true
		}
	}
	return false
}

var symbolLike = regexp.MustCompile(`^([a-z][a-z0-9]*)\.([A-Z]\w*)(?:\.(\w+))?(?:\(\))?$`)

// missingSymbols checks `stock.Reserve` and the like, for packages of ours.
func missingSymbols(tr *tree, doc document) (complaints []string) {
	for _, code := range doc.inline {
		m := symbolLike.FindStringSubmatch(code)
		if m == nil {
			continue
		}
		declared := tr.declared(m[1])
		for _, name := range m[2:] {
			if len(declared) > 0 && name != "" && !declared[name] {
				complaints = append(complaints, fmt.Sprintf("%s names %s, but %s declares no %s", doc.path, code, m[1], name))
			}
		}
	}
	return complaints
}

// declared are the names in the packages of that name: also fields and methods.
func (tr *tree) declared(pkg string) map[string]bool {
	names := map[string]bool{}
	for _, s := range tr.sources {
		if s.test || s.file.Name.Name != pkg {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = true
				return false
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.ValueSpec:
				addNames(names, n.Names)
			case *ast.Field:
				addNames(names, n.Names)
			}
			return true
		})
	}
	return names
}

func addNames(names map[string]bool, ids []*ast.Ident) {
	for _, id := range ids {
		names[id.Name] = true
	}
}

var (
	makeCall   = regexp.MustCompile(`(?:^|[;&|$]\s*)make((?:\s+[\w=./-]+)+)`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

func missingTargets(tr *tree, doc document) (complaints []string) {
	makefile, _ := fs.ReadFile(tr.fsys, "Makefile")
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllSubmatch(makefile, -1) {
		targets[string(m[1])] = true
	}
	for _, code := range slices.Concat(doc.inline, doc.fenced) {
		code, _, _ = strings.Cut(code, " #")
		for _, m := range makeCall.FindAllStringSubmatch(code, -1) {
			for target := range strings.FieldsSeq(m[1]) {
				if strings.HasPrefix(target, "-") || strings.Contains(target, "=") || target == "TARGET" {
					continue
				}
				if !targets[target] {
					complaints = append(complaints, fmt.Sprintf("%s names make %s, which the Makefile does not have", doc.path, target))
				}
			}
		}
	}
	return complaints
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)(?:\s+"[^"]*")?\)|(?m:^\[[^\]]+\]:\s*(\S+))`)
	scheme  = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
	heading = regexp.MustCompile(`(?m)^#{1,6}\s+(.+?)\s*$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func brokenLinks(tr *tree, doc document) (complaints []string) {
	for _, m := range link.FindAllStringSubmatch(doc.text, -1) {
		target := m[1] + m[2]
		if scheme.MatchString(target) {
			continue
		}
		file, anchor, _ := strings.Cut(target, "#")
		name := doc.path
		if file != "" {
			name = path.Join(path.Dir(doc.path), file)
		}
		if !tr.names[name] && (!underConstruction || !anyMatches(planned, name)) {
			complaints = append(complaints, fmt.Sprintf("%s links to %s, which does not exist", doc.path, target))
			continue
		}
		if anchor != "" && path.Ext(name) == ".md" && tr.names[name] && !tr.anchors(name)[anchor] {
			complaints = append(complaints, fmt.Sprintf("%s links to %s, which has no such heading", doc.path, target))
		}
	}
	return complaints
}

// anchors are the headings of a document, as GitHub turns them into fragments.
func (tr *tree) anchors(name string) map[string]bool {
	text, _ := fs.ReadFile(tr.fsys, name)
	anchors := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		slug := notSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		anchors[strings.ReplaceAll(slug, " ", "-")] = true
	}
	return anchors
}

var (
	flagAlone  = regexp.MustCompile(`^--([a-z][a-z0-9-]*)`)
	flagInside = regexp.MustCompile(`(?:^|\s)--([a-z][a-z0-9-]*)`)
	ourCommand = regexp.MustCompile(`^(?:\$ )?(?:bin/|\./)*seckill\s`)
)

// missingFlags checks a flag in backticks, and those of a command of ours.
func missingFlags(tr *tree, doc document) (complaints []string) {
	known, built := tr.flagLiterals()
	if !built && underConstruction {
		return nil
	}
	for _, code := range slices.Concat(doc.inline, doc.fenced) {
		pattern := flagAlone
		if ourCommand.MatchString(code) {
			pattern = flagInside
		}
		for _, m := range pattern.FindAllStringSubmatch(code, -1) {
			if !known[m[1]] && !known[strings.ReplaceAll(m[1], "-", "_")] {
				complaints = append(complaints, fmt.Sprintf("%s names the flag --%s, which no command has", doc.path, m[1]))
			}
		}
	}
	return complaints
}

// flagLiterals collects the words of all string literals where flags are
// declared, so that it does not matter by which library, or by a struct's tags.
func (tr *tree) flagLiterals() (known map[string]bool, built bool) {
	known = map[string]bool{"help": true}
	for _, s := range tr.sources {
		if s.test || !slices.Contains(flagPackages, s.pkg) {
			continue
		}
		built = built || s.pkg == "internal/config"
		ast.Inspect(s.file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				return true
			}
			maps.Insert(known, wordsOf(text))
			return true
		})
	}
	return known, built
}

func wordsOf(text string) func(yield func(string, bool) bool) {
	return func(yield func(string, bool) bool) {
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \":,=", r) }) {
			if !yield(strings.TrimPrefix(word, "--"), true) {
				return
			}
		}
	}
}

func TestDocumentRulesCatch(t *testing.T) {
	tr := madeUp(t, map[string]string{
		"Makefile":                  "test: build ## Run\nFUZZ ?= 1\n",
		"docs/start.md":             "# Start here\n",
		"stock/stock.go":            "package stock\ntype Stock interface{ Reserve() error }\ntype Spec struct{ Units int }",
		"stock/redisstock/keys.go":  "package redisstock",
		"stock/redisstock/load.lua": "",
		"internal/config/config.go": "package config\nvar A = \"admin-listen\"\ntype C struct { B int `koanf:\"backlog_high\"` }",
	})
	rule := func(rule, text, what string) {
		t.Helper()
		complaints := slices.Compact(slices.Sorted(slices.Values(documentRules[rule](tr, parseDocument("docs/x.md", text)))))
		if what == "" {
			holds(t, complaints)
		} else {
			catches(t, complaints, what)
		}
	}

	rule("paths", "See `internal/nobody`.", "docs/x.md names internal/nobody")
	rule("paths", "See `stock/redisstock/gone.go`.", "gone.go")
	rule("paths", "See `gone.lua`.", "gone.lua")
	rule("paths", "Run `go test ./stock/nothing/...`.", "stock/nothing")
	rule("paths", "```\nstock/nothing/   what it was\n```", "stock/nothing")
	rule("paths", "Or `stock/kafka*`.", "stock/kafka*")
	rule("paths", "`stock/redisstock` `seckill/stock` `stock/` `load.lua` `stock/redis*` `stock/…` `start.md` `./stock/...`", "")
	rule("paths", "`application/problem+json` `/v1/orders` `./data` `bin/seckill demo` `redis://host:port/db` `config.yaml` `GET /a/{id}`", "")

	rule("symbols", "Then `stock.Rescue` is called.", "stock declares no Rescue")
	rule("symbols", "Then `stock.Spec.Unit` counts.", "stock declares no Unit")
	rule("symbols", "`stock.Stock.Reserve` `stock.Reserve()` `stock.Spec.Units` `slices.Gone` `seckill.db`", "")

	rule("targets", "Type `make tea`.", "make tea")
	rule("targets", "```\ncd x && make test coffee FUZZ=2  # make sure\n```", "make coffee")
	rule("targets", "To make sure, `make test FUZZ=1`.", "")

	rule("links", "[a](gone.md)", "docs/x.md links to gone.md")
	rule("links", "[a](start.md#end)", "no such heading")
	rule("links", "[a]: ../gone.md", "../gone.md")
	rule("links", "[a](start.md#start-here) [b](https://example.com/x) [c](../Makefile) `[d](gone.md)`", "")

	rule("flags", "With `--no-such-flag` it flies.", "--no-such-flag")
	rule("flags", "```\nbin/seckill serve --admin-listen :1 --adminlisten :2\n```", "--adminlisten")
	rule("flags", "`--admin-listen :1` `--backlog-high` `docker compose up --build`", "")
}
