package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Accounts by the command line, against the real ones: a password is read from a file or drawn, shown
// once at most, and never taken from the command line.
func TestAccountCommands(t *testing.T) {
	environ, db, _ := controlled(t)
	run := func(status int, want string, args ...string) string {
		t.Helper()
		r := seckill(t, environ, append([]string{"account"}, args...)...)
		if got := r.stdout + r.stderr; r.status != status || !regexp.MustCompile(want).MatchString(got) {
			t.Fatalf("%q: got status %d and\n%s\nwant %d and %s", args, r.status, got, status, want)
		}
		return r.stdout
	}
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "@" + path
	}
	stored := func() string {
		_, hash, err := db.Credentials(t.Context(), "olga")
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	good := file("correct horse battery\r\nnot this\n")
	run(0, "There are no accounts", "list")
	run(0, `(?s)olga +operator +false .*\nPassword: [A-Z2-7]{26}\nIt is not shown again\.\n$`, "add", "olga", "--role", "operator")
	before := stored()
	out := run(0, `olga +operator +false`, "password", "olga", "--password", good, "--reason", "she forgot it")
	if strings.Contains(out, "correct horse") || strings.Contains(out, "Password") || stored() == before {
		t.Errorf("got %s", out)
	}
	run(0, `^\{"name":"vic","role":"viewer",`, "add", "vic", "--role", "viewer", "--password", good, "--json")
	run(0, `(?s)olga +operator.*vic +viewer`, "list")
	run(1, "conflict", "add", "vic", "--role", "viewer")
	run(0, "account vic: removed", "remove", "vic")
	run(1, "not_found", "remove", "vic")
	run(1, "not_found", "password", "vic", "--password", good)
	run(2, `seckill: --role: `, "add", "x", "--role", "root")
	run(2, `seckill: --role: `, "add", "x")
	run(2, `seckill: --password: .*12 characters`, "add", "x", "--role", "viewer", "--password", file("short\n"))
	run(2, `seckill: .*name: `, "add", "No Name", "--role", "viewer")
	for _, bad := range []string{"correct horse battery", "@", "@/nowhere", file("\nx")} {
		if r := seckill(t, environ, "account", "add", "x", "--role", "viewer", "--password", bad); r.status != 2 || !strings.Contains(r.stderr, "--password: ") || strings.Contains(r.stderr, "correct") {
			t.Errorf("%q: %+v", bad, r)
		}
	}
	run(2, "--password: .*--json", "add", "x", "--role", "viewer", "--json")
}
