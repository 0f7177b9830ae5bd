package testenv

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// Each folder of jars holds the pom.xml of a server that is written in Java. What it needs
// is fetched by scripts/setup-tests.sh and kept outside of the repository.
//
//go:embed jars/*/pom.xml
var poms embed.FS

// javaServer finds Java and the jars of a server, or fails the test with what to do. The
// class path is for the JVM, which resolves the asterisk itself.
func javaServer(tb testing.TB, name string) (java, classPath string) {
	tb.Helper()
	java = needs(tb, "java")
	dir, err := jarsDir(name)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		tb.Fatalf("the jars of %s are not in %s: run scripts/setup-tests.sh", name, dir)
	}
	return java, filepath.Join(dir, "*")
}

// jarsDir is where the script puts the jars of a server: a folder for each content of
// its pom.xml, so that jars of an earlier version are never taken for the present one's.
func jarsDir(name string) (string, error) {
	pom, err := poms.ReadFile("jars/" + name + "/pom.xml")
	if err != nil {
		return "", err
	}
	root := os.Getenv("SECKILL_TEST_JARS")
	if root == "" {
		cache := os.Getenv("XDG_CACHE_HOME")
		if cache == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", err
			}
			cache = filepath.Join(home, ".cache")
		}
		root = filepath.Join(cache, "seckill-tests")
	}
	hash := sha256.Sum256(pom)
	return filepath.Join(root, name+"-"+hex.EncodeToString(hash[:])[:12], "lib"), nil
}
