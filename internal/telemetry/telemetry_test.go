package telemetry

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// names are the program's own metrics that are registered, whether or not they have a value yet.
func names(t *testing.T, m *Metrics) map[string]bool {
	t.Helper()
	all := make(chan *prometheus.Desc)
	go func() {
		defer close(all)
		m.Registry.Describe(all)
	}()
	found := map[string]bool{}
	name := regexp.MustCompile(`fqName: "(seckill_\w+)"`)
	for d := range all {
		if part := name.FindStringSubmatch(d.String()); part != nil {
			found[part[1]] = true
		}
	}
	return found
}

// The operators' table of metrics has each of them and no other.
func TestMetricsAreInTheDocument(t *testing.T) {
	m := New("test")
	m.Forgotten("ip", func() int64 { return 0 })
	text, err := os.ReadFile("../../docs/operating/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(seckill_\\w+)` \\|").FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = true
	}
	got, want := slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(names(t, m)))
	if !slices.Equal(got, want) {
		t.Errorf("documented: %q,\nwant %q", got, want)
	}
}

// What limits have forgotten is read when it is asked for, each under its name.
func TestForgottenKeysAreCounted(t *testing.T) {
	m := New("test")
	count := map[string]int64{"ip": 1, "user": 2}
	for name := range count {
		m.Forgotten(name, func() int64 { return count[name] })
	}
	count["user"] = 7
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, f := range families {
		if f.GetName() != "seckill_limit_forgotten_total" {
			continue
		}
		for _, one := range f.GetMetric() {
			got[one.GetLabel()[0].GetValue()] = int64(one.GetCounter().GetValue())
		}
	}
	if !maps.Equal(got, count) {
		t.Errorf("got %v, want %v", got, count)
	}
}
