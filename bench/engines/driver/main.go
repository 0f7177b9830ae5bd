// Command driver measures the HTTP engines of ../server against one another
// and against nginx, and prints the tables of
// docs/decisions/0002-public-listener-engine.md. Start it through run.sh.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

var (
	server   = flag.String("server", "", "path of the built server")
	script   = flag.String("script", "", "path of the wrk script")
	work     = flag.String("work", "", "empty folder for nginx's files")
	rounds   = flag.Int("rounds", 4, "rounds of the CPU comparison")
	duration = flag.Duration("duration", 5*time.Second, "length of one wrk run")
	waiting  = flag.Int("waiting", 20000, "clients waiting for events")
	only     = flag.String("only", "cpu,idle,sse,slow,stop", "parts to run")
)

// A subject is one server under test.
type subject struct {
	name string
	args []string // Nil for nginx.
}

var (
	nginx    = subject{"nginx `return 200`", nil}
	fasthttp = subject{"fasthttp", []string{"-engine", "fasthttp"}}
	reduced  = subject{"fasthttp, ReduceMemoryUsage", []string{"-engine", "fasthttp", "-reduce"}}
	hertz    = subject{"hertz", []string{"-engine", "hertz"}}
	nethttp  = subject{"net/http", []string{"-engine", "nethttp"}}
)

func (s subject) with(name string, args ...string) subject {
	return subject{s.name + name, append(append([]string{}, s.args...), args...)}
}

func main() {
	flag.Parse()
	parts := []struct {
		name string
		run  func() error
	}{
		{"cpu", measureCPU},
		{"idle", measureIdle},
		{"sse", measureEvents},
		{"slow", measureSlow},
		{"stop", measureStop},
	}
	for _, p := range parts {
		if !strings.Contains(*only, p.name) {
			continue
		}
		if err := p.run(); err != nil {
			fmt.Fprintf(os.Stderr, "driver: %s: %v\n", p.name, err)
			os.Exit(1)
		}
	}
}
