package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seckill/client"
	"seckill/internal/bench"
	"seckill/internal/config"
)

// benchFlags are what the command is told.
type benchFlags struct {
	o                       bench.Options
	auth, ids, admin, token string
	follow                  time.Duration
	jsonFile, htmlFile      string
}

func (p *program) bench() *cobra.Command {
	b := &benchFlags{}
	cmd := &cobra.Command{
		Use: "bench", Short: "Generate load, and check what comes of it", Args: exactly(),
		Long: "Generate load as buyers who click. With --rate it is an open loop: clicks come at their times, and\n" +
			"the time that one waits behind a slow server is part of its latency. Without it, --concurrency buyers\n" +
			"click as fast as they are answered.\n\n" +
			"With an admin token the books are checked afterwards. Exit status 1 if a unit was oversold, lost, or\n" +
			"sold to a buyer past the limit.",
		Example: "  seckill bench --activity 1 --rate 5000 --duration 30s --html report.html\n" +
			"  seckill bench --activity 1 --concurrency 256 --buyers 100000 --clicks 3",
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&b.o.Server, "server", publicDefault, "address of the public listener")
	f.Int64Var(&b.o.Activity, "activity", 0, "id of the activity (default: the only one that buyers see)")
	f.StringVar(&b.auth, "auth", "open", "how buyers say who they are, as the server's --auth: open, header:NAME, jwt:hs256:SECRET or jwt:hs256:@FILE")
	f.Float64Var(&b.o.Rate, "rate", 0, "clicks per second of an open loop")
	f.IntVar(&b.o.Concurrency, "concurrency", 0, "requests under way at most (default 64, with --rate 512)")
	f.Int64Var(&b.o.Buyers, "buyers", 0, "different buyers (default: as many as there is time for)")
	f.IntVar(&b.o.Clicks, "clicks", 1, "clicks of each buyer")
	f.IntVar(&b.o.Quantity, "quantity", 1, "units for each click")
	f.DurationVar(&b.o.Duration, "duration", 0, "how long (default 10s, or with --buyers until all have clicked)")
	f.StringVar(&b.ids, "ids", "random", "buyers' ids: random (UUIDs) or scattered (numbers)")
	f.Uint64Var(&b.o.Seed, "seed", 0, "of the buyers' ids, a whole number; the same seed makes the same buyers (default: random)")
	f.DurationVar(&b.o.Timeout, "timeout", 10*time.Second, "of one request, a duration such as 10s")
	f.DurationVar(&b.follow, "follow", 30*time.Second, "how long accepted tickets are followed after the load, a duration; 0 does not")
	f.StringVar(&b.admin, "server-admin", "", "address of the admin listener (default SECKILL_SERVER, or "+adminDefault+")")
	f.StringVar(&b.token, "admin-token", "", "admin token, or @FILE; checks the books (default SECKILL_ADMIN_TOKEN)")
	f.StringVar(&b.jsonFile, "json", "", "write the report as JSON to this file; - is standard output")
	f.StringVar(&b.htmlFile, "html", "", "write the report with charts to this file")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.runBench(cmd.Context(), b) }
	return cmd
}

func (p *program) runBench(ctx context.Context, b *benchFlags) error {
	if err := p.readBench(b); err != nil {
		return err
	}
	if b.o.Activity == 0 {
		id, err := onlyActivity(ctx, b.o.Server)
		if err != nil {
			return err
		}
		b.o.Activity = id
	}
	line := newLine(p.stderr)
	b.o.Progress = func(g bench.Progress) { line.show(progressText(g)) }
	r, err := bench.Run(ctx, b.o)
	line.end()
	if err != nil {
		return fail(err)
	}
	if b.jsonFile != "-" {
		p.showBench(r)
	}
	if err := p.writeReports(b, r); err != nil {
		return fail(err)
	}
	switch {
	case len(r.Violations) > 0:
		return fail(fmt.Errorf("%w: %s", bench.ErrViolated, strings.Join(r.Violations, "; ")))
	case r.Interrupted:
		return fail(errors.New("interrupted"))
	case r.Requests > 0 && r.Errors == r.Requests:
		return fail(errors.New("no request was answered"))
	}
	return nil
}

// readBench judges the flags, and fills in what bench needs.
func (p *program) readBench(b *benchFlags) error {
	switch b.ids {
	case "random", "scattered":
		b.o.Scattered = b.ids == "scattered"
	default:
		return &mistake{"--ids", fmt.Sprintf("%q is not known", b.ids), "random or scattered"}
	}
	if b.o.Activity < 0 {
		return &mistake{"--activity", "is not an id", "a whole number from 1"}
	}
	auth, err := config.ParseAuth(b.auth)
	if err != nil {
		return fmt.Errorf("--auth: %w", err)
	}
	if auth.Kind == config.AuthJWKS {
		return &mistake{"--auth", "tokens of a key set cannot be made here", "open, header:NAME or jwt:hs256:SECRET"}
	}
	b.o.Identity = bench.Identity{Header: auth.Header, Secret: auth.Secret.Reveal()}
	if _, err := client.NewBuyer(client.Options{Server: b.o.Server}); err != nil {
		return &mistake{"--server", "cannot be used", "http://host:port or https://host"}
	}
	if b.o.FollowFor = b.follow; b.follow <= 0 {
		b.o.FollowFor = -1
	}
	for flag, negative := range map[string]bool{
		"rate": b.o.Rate < 0, "concurrency": b.o.Concurrency < 0, "duration": b.o.Duration < 0, "timeout": b.o.Timeout <= 0, "buyers": b.o.Buyers < 0,
	} {
		if negative {
			return &mistake{"--" + flag, "is negative", "a value above 0"}
		}
	}
	if err := b.o.Check(); err != nil {
		return fmt.Errorf("--%w", err)
	}
	token, err := p.readToken(b.token)
	if err != nil || token.Empty() {
		return err
	}
	b.o.Admin, err = client.NewAdmin(client.Options{Server: first(b.admin, p.variable("SECKILL_SERVER"), adminDefault), Token: token.Reveal()})
	if err != nil {
		return &mistake{"--server-admin", "cannot be used", "http://host:port or https://host"}
	}
	return nil
}

// onlyActivity finds the one that must be meant.
func onlyActivity(ctx context.Context, server string) (int64, error) {
	b, err := client.NewBuyer(client.Options{Server: server})
	if err != nil {
		return 0, fail(err)
	}
	list, err := b.Activities(ctx)
	if err != nil {
		return 0, fail(fmt.Errorf("look for an activity: %w", err))
	}
	if len(list) != 1 {
		return 0, &mistake{"--activity", fmt.Sprintf("is required, since there are %d activities", len(list)), "the id of one"}
	}
	return list[0].ID, nil
}

// line is a line of progress: on a terminal one that changes, else a new one each time.
type line struct {
	w    io.Writer
	live bool
}

func newLine(w io.Writer) *line { return &line{w, terminal(w)} }

func (l *line) show(text string) {
	if l.live {
		fmt.Fprint(l.w, "\r\x1b[K"+text)
		return
	}
	fmt.Fprintln(l.w, text)
}

func (l *line) end() {
	if l.live {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}

func progressText(g bench.Progress) string {
	if g.Phase == "follow" {
		return fmt.Sprintf("following tickets: %d of %d final", g.Tickets.Kept-g.Tickets.Pending, g.Tickets.Kept)
	}
	of := ""
	if g.Planned > 0 {
		of = " of " + bench.Thousands(g.Planned)
	}
	return fmt.Sprintf("%5.1fs  %s%s requests, %s accepted, %s refused, %s errors  p50 %.1f ms, p99 %.1f ms", g.Elapsed.Seconds(),
		bench.Thousands(g.Requests), of, bench.Thousands(g.Tally.Accepted()), bench.Thousands(g.Tally.Refused()), bench.Thousands(g.Tally.Errors()),
		g.Recent.Latency.P50, g.Recent.Latency.P99)
}

func (p *program) showBench(r *bench.Report) {
	fmt.Fprintf(p.stdout, "%s (activity %d), %s loop, seed %d\n", printable(r.Name), r.Activity, r.Loop, r.Seed)
	fmt.Fprintf(p.stdout, "%s requests in %.2f s: %s per second, of which %s accepted\n\n", bench.Thousands(r.Requests), r.Seconds,
		bench.Thousands(int64(r.PerSecond+0.5)), bench.Thousands(int64(float64(r.Accepted)/max(r.Seconds, 1e-9)+0.5)))
	rows := [][]string{{"OUTCOME", "REQUESTS", "SHARE"}}
	row := func(name string, n int64) {
		rows = append(rows, []string{name, bench.Thousands(n), fmt.Sprintf("%.2f %%", 100*float64(n)/float64(max(r.Requests, 1)))})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Outcomes)) {
		row(name, r.Outcomes[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.ErrorKinds)) {
		row("error: "+name, r.ErrorKinds[name])
	}
	table(p.stdout, rows)
	fmt.Fprintln(p.stdout)
	rows = [][]string{{"MILLISECONDS", "COUNT", "MEAN", "P50", "P90", "P99", "P99.9", "MAX"}}
	for _, l := range []struct {
		name string
		q    bench.Quantiles
	}{{"all requests", r.Latency}, {"accepted", r.AcceptedTook}, {"accepted to final", r.Tickets.Lag}} {
		rows = append(rows, []string{l.name, bench.Thousands(l.q.Count), ms(l.q.Mean), ms(l.q.P50), ms(l.q.P90), ms(l.q.P99), ms(l.q.P999), ms(l.q.Max)})
	}
	table(p.stdout, rows)
	fmt.Fprintln(p.stdout)
	if r.Loop == "open" {
		fmt.Fprintf(p.stdout, "A click waited at most %s ms for a free connection (counted above); %s never got one.\n", ms(r.LateMaxMS), bench.Thousands(r.Unsent))
	}
	if limited := r.Outcomes["rate_limited"]; limited*100 > r.Requests {
		fmt.Fprintln(p.stdout, "Many clicks were too fast for the server's limits: all of them come from this address. To measure what is behind the "+
			"limits, start the server with --limit-ip off --limit-user off.")
	}
	k := r.Tickets
	fmt.Fprintf(p.stdout, "Tickets: %d accepted, %d followed: %d confirmed, %d failed, %d not final yet, %d unknown\n", k.Accepted, k.Kept, k.Confirmed, k.Kept-k.Confirmed-k.Pending-k.Unknown, k.Pending, k.Unknown)
	if r.Books != nil {
		fmt.Fprintln(p.stdout, "Books: "+equation(&r.Books.After))
	}
}

func ms(v float64) string { return fmt.Sprintf("%.2f", v) }

func (p *program) writeReports(b *benchFlags, r *bench.Report) error {
	encode := func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	if b.jsonFile == "-" {
		if err := encode(p.stdout); err != nil {
			return err
		}
	} else if b.jsonFile != "" {
		if err := writeFile(b.jsonFile, encode); err != nil {
			return err
		}
	}
	if b.htmlFile != "" {
		return writeFile(b.htmlFile, r.WriteHTML)
	}
	return nil
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := write(f); err != nil {
		return errors.Join(fmt.Errorf("write the report: %w", err), f.Close())
	}
	return f.Close()
}
