package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"seckill/client"
	"seckill/internal/app"
	"seckill/internal/bench"
	"seckill/internal/config"
)

// demo is what the command is told, and what it has made.
type demo struct {
	p                         *program
	startsIn                  time.Duration
	stock, buyers             int64
	clicks                    int
	listen, adminListen, data string
	exit                      bool

	words    *demoWords
	token    string
	admin    *client.Admin
	activity client.AdminActivity
	public   string // Addresses with their scheme.
	console  string
}

func (p *program) demo() *cobra.Command {
	d := &demo{p: p}
	cmd := &cobra.Command{
		Use: "demo", Short: "Start everything in one process, with a sale that opens in a few seconds", Args: exactly(),
		Long: "Start everything in one process on the embedded engines, with one activity that opens in a few seconds.\n" +
			"With --buyers, simulated buyers rush in at the start, and the result is printed.",
		Example: "  seckill demo --buyers 1000",
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.DurationVar(&d.startsIn, "starts-in", 10*time.Second, "when the sale opens, a duration from 0s to 24h")
	f.Int64Var(&d.stock, "stock", 100, "units to be sold, a whole number from 1")
	f.Int64Var(&d.buyers, "buyers", 0, "simulated buyers, a whole number up to 1000000")
	f.IntVar(&d.clicks, "clicks", 3, "clicks of each simulated buyer, a whole number from 1 to 100")
	f.BoolVar(&d.exit, "exit", false, "end after the result; exit status 1 if the books do not balance")
	f.StringVar(&d.listen, "listen", "127.0.0.1:8080", "public listener, host:port; the default gives way if it is taken")
	f.StringVar(&d.adminListen, "admin-listen", "127.0.0.1:8081", "admin listener, host:port; the default gives way if it is taken")
	f.StringVar(&d.data, "data", "", "folder of the embedded engines (default: a new one, removed at the end)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := d.check(); err != nil {
			return err
		}
		d.words = wordsFor(p)
		return d.run(cmd.Context(), !f.Changed("listen"), !f.Changed("admin-listen"))
	}
	return cmd
}

func (d *demo) check() error {
	switch {
	case d.startsIn < 0 || d.startsIn > 24*time.Hour:
		return &mistake{"--starts-in", d.startsIn.String() + " is out of bounds", "0s to 24h"}
	case d.stock < 1 || d.stock > 1_000_000_000:
		return &mistake{"--stock", fmt.Sprintf("%d is out of bounds", d.stock), "1 to 1000000000 units"}
	case d.buyers < 0 || d.buyers > 1_000_000:
		return &mistake{"--buyers", fmt.Sprintf("%d is out of bounds", d.buyers), "0 to 1000000"}
	case d.clicks < 1 || d.clicks > 100:
		return &mistake{"--clicks", fmt.Sprintf("%d is out of bounds", d.clicks), "1 to 100"}
	case d.exit && d.buyers == 0:
		return &mistake{"--exit", "has no result to wait for", "--exit together with --buyers"}
	}
	return nil
}

func (d *demo) settings(ctx context.Context, publicGivesWay, adminGivesWay bool) (config.Config, error) {
	c := config.Default()
	c.Listen, c.AdminListen, c.Data = d.listen, d.adminListen, d.data
	if publicGivesWay {
		c.Listen = d.freeAddress(ctx, c.Listen)
	}
	if adminGivesWay {
		c.AdminListen = d.freeAddress(ctx, c.AdminListen)
	}
	d.token = rand.Text()
	c.Auth, c.AdminToken, c.SimulatePayment = config.Auth{Kind: config.AuthOpen}, config.NewSecret(d.token), true
	// All simulated buyers come from one address.
	c.LimitIP, c.LimitUser, c.LimitDevice = config.Limit{}, config.Limit{}, config.Limit{}
	if err := c.Validate(); err != nil {
		return c, err
	}
	c.Database = c.SQL()
	return c, nil
}

// freeAddress returns the address, or one on a free port if it is taken.
func (d *demo) freeAddress(ctx context.Context, address string) string {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err == nil {
		_ = l.Close() // The server binds it again.
		return address
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return address // The server will say what is wrong.
	}
	fmt.Fprintf(d.p.stdout, d.words.taken+"\n", address)
	return "127.0.0.1:0"
}

// run starts the server, shows it, and stops it.
func (d *demo) run(ctx context.Context, publicGivesWay, adminGivesWay bool) (err error) {
	if d.data == "" {
		if d.data, err = os.MkdirTemp("", "seckill-demo-"); err != nil {
			return fail(fmt.Errorf("make a folder: %w", err))
		}
		defer func() { _ = os.RemoveAll(d.data) }() // What is left is the system's to clean up.
	}
	if d.data, err = filepath.Abs(d.data); err != nil {
		return fail(err)
	}
	c, err := d.settings(ctx, publicGivesWay, adminGivesWay)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(d.p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	a, err := app.New(ctx, c, thisBuild().Version, log)
	if err != nil {
		return fail(fmt.Errorf("start: %w", err))
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(serving) }()
	d.public, d.console = "http://"+dialable(a.PublicAddr()), "http://"+dialable(a.AdminAddr())

	shown := make(chan error, 1)
	go func() { shown <- d.show(serving) }()
	select {
	case err = <-shown:
		stop()
		return errors.Join(err, fail(<-ended))
	case err = <-ended: // By a signal, or because a part failed.
		stop()
		shownErr := <-shown
		if err == nil && ctx.Err() != nil {
			return nil
		}
		return errors.Join(fail(err), shownErr)
	}
}

// dialable turns the address of a listener on all addresses into one that can be opened.
func dialable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// show creates the activity, tells where everything is, plays the rush, and waits.
func (d *demo) show(ctx context.Context) error {
	transport := &http.Transport{IdleConnTimeout: 5 * time.Second}
	defer transport.CloseIdleConnections()
	var err error
	d.admin, err = client.NewAdmin(client.Options{Server: d.console, Token: d.token, HTTP: &http.Client{Transport: transport}})
	if err != nil {
		return fail(err)
	}
	start := time.Now().Add(d.startsIn).UTC().Truncate(time.Millisecond)
	d.activity, err = d.admin.CreateActivity(ctx, client.NewActivity{
		Name: d.words.product, Description: d.words.description, Stock: d.stock, PriceCents: 9900,
		StartsAt: start, EndsAt: start.Add(24 * time.Hour),
	})
	if err != nil {
		return fail(fmt.Errorf("create the activity: %w", err))
	}
	d.announce()
	d.countdown(ctx)
	if d.buyers > 0 && ctx.Err() == nil {
		if err := d.rush(ctx); err != nil || d.exit {
			return err
		}
	}
	if ctx.Err() == nil {
		fmt.Fprintln(d.p.stdout, d.words.stays)
	}
	<-ctx.Done()
	return nil
}

func (d *demo) announce() {
	w, t := d.p.stdout, d.words
	fmt.Fprintf(w, "\n  %s\n\n", t.title)
	table(w, [][]string{
		{"  " + t.buyerPage, fmt.Sprintf("%s/a/%d", d.public, d.activity.ID)},
		{"  " + t.console, d.console + "/"},
		{"  " + t.token, d.token},
		{"  " + t.data, d.data},
		{"  " + t.onSale, fmt.Sprintf(t.units, d.stock, d.activity.Name)},
	})
	fmt.Fprintln(w)
}

// countdown waits for the start: on a terminal second by second.
func (d *demo) countdown(ctx context.Context) {
	l := newLine(d.p.stdout)
	if !l.live && time.Until(d.activity.StartsAt) > 0 {
		l.show(fmt.Sprintf(d.words.opensIn, short(time.Until(d.activity.StartsAt))))
	}
	for ctx.Err() == nil {
		left := time.Until(d.activity.StartsAt)
		if left <= 0 {
			break
		}
		if l.live {
			l.show("  " + fmt.Sprintf(d.words.opensIn, short(left)))
		}
		// Wake at the next whole second of the countdown.
		step := left % time.Second
		if step == 0 {
			step = time.Second
		}
		t := time.NewTimer(step)
		select {
		case <-ctx.Done():
			t.Stop()
		case <-t.C:
		}
	}
	l.end()
	if ctx.Err() == nil {
		fmt.Fprintln(d.p.stdout, "  "+d.words.open)
	}
}

func short(d time.Duration) string { return (d + time.Second - 1).Truncate(time.Second).String() }

const (
	rushLeast   = 1500 * time.Millisecond
	rushPerSec  = 10_000 // Clicks per second that a rush of many is stretched to.
	rushWorkers = 512
)

// rush plays the simulated buyers and shows what they get.
func (d *demo) rush(ctx context.Context) error {
	clicks := d.buyers * int64(d.clicks)
	view := newRushView(d)
	r, err := bench.Run(ctx, bench.Options{
		Server: d.public, Activity: d.activity.ID, Buyers: d.buyers, Clicks: d.clicks,
		Rush:        max(rushLeast, time.Duration(clicks)*time.Second/rushPerSec),
		Concurrency: int(min(clicks, rushWorkers)), Every: 250 * time.Millisecond,
		StartAt: d.activity.StartsAt, Admin: d.admin,
		Progress: func(g bench.Progress) { view.show(ctx, g) },
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // Somebody has stopped it.
		}
		return fail(fmt.Errorf("play the buyers: %w", err))
	}
	if r.Interrupted {
		return nil
	}
	d.result(r)
	if len(r.Violations) > 0 || r.Books == nil || !r.Books.After.Balanced {
		return errQuiet
	}
	return nil
}
