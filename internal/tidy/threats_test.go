package tidy

import (
	"fmt"
	"go/ast"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// threatsDocument has the table of threats, each with the tests that show what stops it.
const threatsDocument = "docs/security/threats.md"

// threats are the ids that the table has to have.
var threats = []string{
	"OAT-005", "OAT-006", "OAT-009", "OAT-013", "OAT-015", "OAT-021",
	"API1", "API2", "API3", "API4", "API5", "API6", "API7", "API8", "API9", "API10",
}

var (
	threatRow = regexp.MustCompile(`^\| ((?:OAT-|API)\d+) \|.*\| ([^|]*) \|$`)
	testName  = regexp.MustCompile("`(Test\\w+)`")
)

// Every threat of the checklist is in the table, and every test that the table names exists.
func TestThreatsHaveTests(t *testing.T) {
	tr := repository(t)
	text, err := fs.ReadFile(tr.fsys, threatsDocument)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, untestedThreats(tr, string(text), threats))
}

func untestedThreats(tr *tree, text string, ids []string) (complaints []string) {
	tests := map[string]bool{}
	for _, s := range tr.sources {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && f.Recv == nil {
				tests[f.Name.Name] = true
			}
		}
	}
	rows := map[string]int{}
	for line := range strings.Lines(text) {
		m := threatRow.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		rows[m[1]]++
		named := testName.FindAllStringSubmatch(m[2], -1)
		if len(named) == 0 {
			complaints = append(complaints, fmt.Sprintf("%s names no test", m[1]))
		}
		for _, n := range named {
			if !tests[n[1]] {
				complaints = append(complaints, fmt.Sprintf("%s names %s, which does not exist", m[1], n[1]))
			}
		}
	}
	for _, id := range ids {
		if rows[id] != 1 {
			complaints = append(complaints, fmt.Sprintf("%s has %d rows, want one", id, rows[id]))
		}
	}
	return complaints
}

func TestThreatRuleCatches(t *testing.T) {
	in := madeUp(t, map[string]string{
		"a.go":      "package seckill\nfunc TestInTheProduct() {}",
		"a_test.go": "package seckill\nimport \"testing\"\nfunc TestThere(t *testing.T) {}",
	})
	catches(t, untestedThreats(in, "| OAT-005 | x | y | `TestGone` |", nil), "OAT-005 names TestGone")
	catches(t, untestedThreats(in, "| OAT-005 | x | y | `TestInTheProduct` |", nil), "OAT-005 names TestInTheProduct")
	catches(t, untestedThreats(in, "| API1 | x | y | by hand |", nil), "API1 names no test")
	catches(t, untestedThreats(in, "| API1 | x | y | `TestThere` |", []string{"API1", "API10"}), "API10 has 0 rows")
}
