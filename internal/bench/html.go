package bench

import (
	_ "embed" // For the template of the page.
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

//go:embed report.html
var pageText string

// The size of a chart, in the units of its SVG.
const (
	chartWidth  = 900.0
	chartHeight = 260.0
	chartLeft   = 60.0
	chartBottom = 30.0
	pointsMax   = 300
)

// chart is one picture: lines or stacked areas over time.
type chart struct {
	Title  string
	Series []series
	YTicks []tick
	XTicks []tick
}

type series struct {
	Name, Color, Path string
	Fill              bool
}

type tick struct {
	At    float64
	Label string
}

// page is what the template shows.
type page struct {
	*Report
	Charts   []chart
	Outcomes []count
	Problems []count
	Good     bool
}

type count struct {
	Name  string
	Count int64
	Share float64
}

// WriteHTML writes the report as one page that needs nothing else.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"ms":    func(v float64) string { return fmt.Sprintf("%.2f", v) },
		"n":     Thousands,
		"round": func(v float64) string { return Thousands(int64(math.Round(v))) },
	}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("parse the page: %w", err)
	}
	points := thin(r.Timeline)
	p := page{Report: r, Charts: []chart{outcomeChart(points), latencyChart(points)}, Good: len(r.Violations) == 0}
	p.Outcomes, p.Problems = counts(r.Outcomes, r.Requests), counts(r.ErrorKinds, r.Requests)
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

func counts(m map[string]int64, of int64) []count {
	var list []count
	for _, name := range byCount(m) {
		list = append(list, count{name, m[name], 100 * float64(m[name]) / float64(max(of, 1))})
	}
	return list
}

// byCount returns the names, the most frequent first.
func byCount(m map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if m[a] != m[b] {
			return int(max(-1, min(1, m[b]-m[a])))
		}
		return strings.Compare(a, b)
	})
}

// Thousands writes a number with commas.
func Thousands(n int64) string {
	s := fmt.Sprint(n)
	start := len(s) - 3
	for ; start > 0 && s[start-1] != '-'; start -= 3 {
		s = s[:start] + "," + s[start:]
	}
	return s
}

// thin joins neighbours until there are few enough to be seen, and the last with the one
// before if it is only the rest of an interval, whose rates would say nothing.
func thin(points []Point) []Point {
	if n := len(points); n > 2 && points[n-1].At-points[n-2].At < (points[n-2].At-points[n-3].At)/4 {
		points = append(slices.Clone(points[:n-2]), joined(points[n-2:]))
	}
	each := (len(points) + pointsMax - 1) / pointsMax
	if each <= 1 {
		return points
	}
	var list []Point
	for part := range slices.Chunk(points, each) {
		list = append(list, joined(part))
	}
	return list
}

func joined(part []Point) Point {
	sum := Point{Outcomes: map[string]int64{}}
	for _, p := range part {
		sum.At = p.At
		sum.Errors += p.Errors
		for name, n := range p.Outcomes {
			sum.Outcomes[name] += n
		}
		// The worst of the parts; quantiles cannot be added.
		sum.Latency.P50, sum.Latency.P90 = max(sum.Latency.P50, p.Latency.P50), max(sum.Latency.P90, p.Latency.P90)
		sum.Latency.P99, sum.Latency.Max = max(sum.Latency.P99, p.Latency.P99), max(sum.Latency.Max, p.Latency.Max)
	}
	return sum
}

var palette = []string{"#2563eb", "#94a3b8", "#f59e0b", "#10b981", "#8b5cf6", "#ec4899", "#14b8a6", "#a16207"}

func outcomeChart(points []Point) chart {
	totals := map[string]int64{}
	for _, p := range points {
		for name, n := range p.Outcomes {
			totals[name] += n
		}
		totals["error"] += p.Errors
	}
	if totals["error"] == 0 {
		delete(totals, "error")
	}
	names := byCount(totals)
	base := make([]float64, len(points))
	c := chart{Title: "Requests per second, by outcome"}
	var layers [][2][]float64 // Lower and upper edge.
	top := 0.0
	for _, name := range names {
		lower := slices.Clone(base)
		before := 0.0
		for i, p := range points {
			n := p.Outcomes[name]
			if name == "error" {
				n = p.Errors
			}
			if took := p.At - before; took > 0 {
				base[i] += float64(n) / took
			}
			before = p.At
			top = max(top, base[i])
		}
		layers = append(layers, [2][]float64{lower, slices.Clone(base)})
	}
	s := scale(points, top)
	for i, name := range names {
		color := palette[i%len(palette)]
		switch name {
		case "accepted":
			color = "#16a34a"
		case "error":
			color = "#dc2626"
		}
		path := "M" + s.line(points, layers[i][1], false) + " L" + s.line(points, layers[i][0], true) + " Z"
		c.Series = append(c.Series, series{name, color, path, true})
	}
	c.XTicks, c.YTicks = s.ticks("")
	return c
}

func latencyChart(points []Point) chart {
	c := chart{Title: "Latency in milliseconds"}
	lines := []struct {
		name, color string
		of          func(Quantiles) float64
	}{
		{"p50", "#2563eb", func(q Quantiles) float64 { return q.P50 }},
		{"p90", "#10b981", func(q Quantiles) float64 { return q.P90 }},
		{"p99", "#f59e0b", func(q Quantiles) float64 { return q.P99 }},
		{"max", "#dc2626", func(q Quantiles) float64 { return q.Max }},
	}
	top := 0.0
	for _, p := range points {
		top = max(top, p.Latency.Max)
	}
	s := scale(points, top)
	for _, l := range lines {
		values := make([]float64, len(points))
		for i, p := range points {
			values[i] = l.of(p.Latency)
		}
		if len(points) > 0 {
			c.Series = append(c.Series, series{l.name, l.color, "M" + s.line(points, values, false), false})
		}
	}
	c.XTicks, c.YTicks = s.ticks(" ms")
	return c
}

// axes turn seconds and values into places.
type axes struct{ seconds, top float64 }

func scale(points []Point, top float64) axes {
	a := axes{1, nice(top)}
	if len(points) > 0 {
		a.seconds = max(points[len(points)-1].At, 0.001)
	}
	return a
}

// nice is the next of 1, 2 and 5 times a power of ten.
func nice(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if v <= f*power {
			return f * power
		}
	}
	return 10 * power
}

func (a axes) x(seconds float64) float64 {
	return chartLeft + seconds/a.seconds*(chartWidth-chartLeft)
}

func (a axes) y(v float64) float64 {
	return (chartHeight - chartBottom) * (1 - v/a.top)
}

func (a axes) line(points []Point, values []float64, back bool) string {
	var places []string
	if len(points) > 0 {
		places = append(places, fmt.Sprintf("%.1f,%.1f", a.x(0), a.y(values[0]))) // The first interval begins at 0.
	}
	for i, p := range points {
		places = append(places, fmt.Sprintf("%.1f,%.1f", a.x(p.At), a.y(values[i])))
	}
	if back {
		slices.Reverse(places)
	}
	return strings.Join(places, " L")
}

func (a axes) ticks(unit string) (x, y []tick) {
	for i := range 5 {
		share := float64(i) / 4
		x = append(x, tick{a.x(share * a.seconds), fmt.Sprintf("%.3gs", share*a.seconds)})
		y = append(y, tick{a.y(share * a.top), fmt.Sprintf("%.6g%s", share*a.top, unit)})
	}
	return x, y
}
