package tidy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// composed is as much of a Compose file as is checked.
type composed struct {
	Services map[string]service
}

type service struct {
	Image       string
	User        string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	CapAdd      []string `yaml:"cap_add"`
	SecurityOpt []string `yaml:"security_opt"`
	Privileged  bool
	MemLimit    string  `yaml:"mem_limit"`
	PidsLimit   int     `yaml:"pids_limit"`
	CPUs        float64 `yaml:"cpus"`
	Ports       []string
	Environment map[string]string
}

// Containers hold nothing that they do not need; only the product publishes something, and what is for operators to the
// loopback alone; and what the product is told are settings that it has.
func TestComposeFilesAreHardened(t *testing.T) {
	known, _ := repository(t).flagLiterals()
	files, err := filepath.Glob("../../deploy/compose*.yaml")
	if err != nil || len(files) != 4 {
		t.Fatalf("found %q, %v; want four files", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range softSpots(t, text, known) {
			t.Errorf("%s: %s", filepath.Base(file), c)
		}
	}
}

// ownVolume may do one thing as root: give a new volume to whom it is for.
const ownVolume = "rocketmq-volume"

// softSpots says what is not as hard in a Compose file as it has to be.
func softSpots(t *testing.T, text []byte, known map[string]bool) (complaints []string) {
	t.Helper()
	no := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	var c composed
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	for name, s := range c.Services {
		for variable := range s.Environment {
			setting, ours := strings.CutPrefix(variable, "SECKILL_")
			if flag := strings.ReplaceAll(strings.ToLower(setting), "_", "-"); ours && !known[flag] {
				no("%s: %s is no setting", name, variable)
			}
		}
		if s.Image == "" {
			continue // It adds to a service of another file.
		}
		if _, tag, _ := strings.Cut(s.Image, ":"); tag == "" || tag == "latest" {
			no("%s: the image %s has no version", name, s.Image)
		}
		if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") || s.Privileged {
			no("%s: it may gain privileges", name)
		}
		if root := s.User == "" || s.User == "root" || strings.HasPrefix(s.User, "0"); root != (name == ownVolume) {
			no("%s: its user is %q", name, s.User)
		}
		if len(s.CapAdd) > 0 && name != ownVolume {
			no("%s: it has the capabilities %q", name, s.CapAdd)
		}
		if s.MemLimit == "" || s.PidsLimit == 0 || s.CPUs == 0 {
			no("%s: memory, processes or processors have no limit", name)
		}
		if !s.ReadOnly && slices.Contains([]string{"seckill", "worker", "redis", "mysql", ownVolume}, name) {
			no("%s: its root can be written to", name)
		}
		for _, p := range s.Ports {
			if name != "seckill" || !strings.Contains(p, "127.0.0.1:") || strings.HasSuffix(p, ":8081") && p != "127.0.0.1:8081:8081" {
				no("%s: it publishes %s", name, p)
			}
		}
	}
	return complaints
}

// secretName finds the names of secrets, and demanded what has to be there.
var (
	secretName = regexp.MustCompile(`\$\{(\w*(?:PASSWORD|SECRET|TOKEN)\w*)([^}]*)\}`)
	plainEnv   = regexp.MustCompile(`(?m)^#?(\w+)=(.*)$`)
)

// No secret has a default, each says what to do when it is missing, and the example names all of them and gives none.
func TestComposeFilesHaveNoSecrets(t *testing.T) {
	demanded := map[string]bool{}
	files, err := filepath.Glob("../../deploy/compose*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range secretName.FindAllStringSubmatch(string(text), -1) {
			demanded[m[1]] = true
			if !strings.HasPrefix(m[2], ":?copy deploy/.env.example") {
				t.Errorf("%s: ${%s%s}, want it demanded with a sentence", filepath.Base(file), m[1], m[2])
			}
		}
	}
	example, err := os.ReadFile("../../deploy/.env.example")
	if err != nil {
		t.Fatal(err)
	}
	empty := map[string]bool{}
	for _, m := range plainEnv.FindAllStringSubmatch(string(example), -1) {
		if m[2] == "" {
			empty[m[1]] = true
		} else if demanded[m[1]] {
			t.Errorf(".env.example gives a %s, which somebody would keep", m[1])
		}
	}
	if !maps.Equal(demanded, empty) || len(demanded) == 0 {
		t.Errorf(".env.example leaves %v to be filled in, the files demand %v", slices.Sorted(maps.Keys(empty)), slices.Sorted(maps.Keys(demanded)))
	}
}

// A file that is less hard is noticed.
func TestComposeRulesCatch(t *testing.T) {
	text, err := os.ReadFile("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	known, _ := repository(t).flagLiterals()
	for _, c := range []struct{ from, to, what string }{
		{"  read_only: true", "  read_only: false", "can be written to"},
		{"  cap_drop: [ALL]", "  cap_drop: []", "privileges"},
		{"no-new-privileges:true", "label:disable", "privileges"},
		{"    user: redis", "    user: root", `redis: its user is "root"`},
		{"    image: redis:7.4", "    image: redis", "has no version"},
		{`"127.0.0.1:8081:8081"`, `"8081:8081"`, "it publishes 8081:8081"},
		{"SECKILL_ROLES", "SECKILL_ROLLS", "SECKILL_ROLLS is no setting"},
		{"    pids_limit: 64\n", "", "have no limit"},
	} {
		changed := strings.Replace(string(text), c.from, c.to, 1)
		if got := strings.Join(softSpots(t, []byte(changed), known), "\n"); !strings.Contains(got, c.what) {
			t.Errorf("with %q instead of %q: got %q, want %q", c.to, c.from, got, c.what)
		}
	}
}
