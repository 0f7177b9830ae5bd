// Package tidy tests the code itself: which package may import which, how long
// things may grow, and whether the documents name things that exist. It is
// tests only, and reads files by itself instead of asking the go command, since
// go test's cache knows only of files that the test opened.
package tidy

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "seckill"

// underConstruction is true while packages of the plan are still missing: rules
// and documents may then speak of them. Once false, each rule must have its
// package, and the list of planned names must be empty.
const underConstruction = false

// source is one Go file.
type source struct {
	path  string // Slash-separated, from the repository's root.
	pkg   string // Its folder; "." is the root package.
	test  bool   // Its name ends in _test.go.
	lines int
	file  *ast.File
	fset  *token.FileSet
}

// tree is the repository, or one that a test made up.
type tree struct {
	fsys    fs.FS
	names   map[string]bool // Each file and folder.
	sources []source        // Go files of this module.
}

// foreign holds folders that are not the module's own.
var foreign = []string{".git", "bin", "build", "data", "node_modules", "vendor"}

// repository reads the checkout that the test runs in.
func repository(t *testing.T) *tree {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working folder")
		}
		dir = parent
	}
	tr, err := read(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// madeUp makes a tree of file names and their text.
func madeUp(t *testing.T, files map[string]string) *tree {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tr, err := read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func read(fsys fs.FS) (*tree, error) {
	tr := &tree{fsys: fsys, names: map[string]bool{}}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		// Others may work in the checkout meanwhile.
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(foreign, d.Name()) {
			return fs.SkipDir
		}
		tr.names[name] = true
		if d.IsDir() || path.Ext(name) != ".go" || tr.otherModule(name) {
			return nil
		}
		return tr.parse(name)
	})
	return tr, err
}

// otherModule tells a file below a go.mod of its own, or one that Go ignores.
func (tr *tree) otherModule(name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		base := path.Base(dir)
		if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
			return true
		}
		if _, err := fs.Stat(tr.fsys, path.Join(dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

func (tr *tree) parse(name string) error {
	text, err := fs.ReadFile(tr.fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	tr.sources = append(tr.sources, source{
		path:  name,
		pkg:   path.Dir(name),
		test:  strings.HasSuffix(name, "_test.go"),
		lines: bytes.Count(text, []byte("\n")),
		file:  file,
		fset:  fset,
	})
	return nil
}

// packages lists the folders that hold Go code.
func (tr *tree) packages() []string {
	var pkgs []string
	for _, s := range tr.sources {
		if !slices.Contains(pkgs, s.pkg) {
			pkgs = append(pkgs, s.pkg)
		}
	}
	slices.Sort(pkgs)
	return pkgs
}

// imports lists what the file imports.
func (s source) imports() []string {
	var paths []string
	for _, spec := range s.file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// importName is the name under which the file uses an import, or "" if it does not.
func (s source) importName(importPath string) string {
	for _, spec := range s.file.Imports {
		if p, _ := strconv.Unquote(spec.Path.Value); p != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

// at is the place of a node, as file and line.
func (s source) at(n ast.Node) string {
	return s.path + ":" + strconv.Itoa(s.fset.Position(n.Pos()).Line)
}

// matches compares a package with a pattern: a path, one with stars that stand
// for a part of one element, or one that ends in "/..." for all below and itself.
func matches(pattern, pkg string) bool {
	if pattern == "..." {
		return true
	}
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == base || strings.HasPrefix(pkg, base+"/")
	}
	ok, err := path.Match(pattern, pkg)
	return err == nil && ok
}

func anyMatches(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, pkg) })
}

// holds fails the test with each complaint of a rule.
func holds(t *testing.T, complaints []string) {
	t.Helper()
	slices.Sort(complaints)
	for _, c := range slices.Compact(complaints) {
		t.Error(c)
	}
}

// catches fails the test unless the rule complains exactly once, about what.
func catches(t *testing.T, complaints []string, what string) {
	t.Helper()
	if len(complaints) != 1 || !strings.Contains(complaints[0], what) {
		t.Errorf("got complaints %q, want one that holds %q", complaints, what)
	}
}
