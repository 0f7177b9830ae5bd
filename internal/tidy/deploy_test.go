package tidy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// metricName finds what an expression measures.
var metricName = regexp.MustCompile(`\bseckill_[a-z_]+`)

// knownMetrics are the names that internal/telemetry has.
func knownMetrics(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	files, err := filepath.Glob("../telemetry/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metricName.FindAllString(string(text), -1) {
			known[name] = true
		}
	}
	return known
}

func wantMetrics(t *testing.T, known map[string]bool, where, expr string) {
	t.Helper()
	names := metricName.FindAllString(expr, -1)
	for _, name := range names {
		if !known[strings.TrimSuffix(name, "_bucket")] && !known[name] {
			t.Errorf("%s: there is no metric %s", where, name)
		}
	}
}

// Every alert measures what the program has, and has a page of the runbook; every page has its alert.
func TestAlertsHaveMetricsAndPages(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	text, err := os.ReadFile("../../deploy/prometheus/seckill.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	known, pages := knownMetrics(t), map[string]bool{"README.md": true}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			wantMetrics(t, known, r.Alert, r.Expr)
			page := r.Alert + ".md"
			pages[page] = true
			if r.Annotations["runbook"] != "docs/runbook/"+page || r.Annotations["summary"] == "" {
				t.Errorf("%s: annotations %v", r.Alert, r.Annotations)
			}
			if _, err := os.Stat("../../docs/runbook/" + page); err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
		}
	}
	if len(pages) < 5 {
		t.Errorf("only %d alerts were read", len(pages)-1)
	}
	there, err := os.ReadDir("../../docs/runbook")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range there {
		if !pages[f.Name()] {
			t.Errorf("docs/runbook/%s belongs to no alert", f.Name())
		}
	}
}

// The dashboard is JSON that Grafana can read, and shows what the program has.
func TestDashboardHasMetrics(t *testing.T) {
	text, err := os.ReadFile("../../deploy/grafana/seckill.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	if len(board.Panels) == 0 {
		t.Error("the dashboard is empty")
	}
	known := knownMetrics(t)
	for _, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			wantMetrics(t, known, p.Title, target.Expr)
		}
	}
}
