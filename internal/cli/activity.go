package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"seckill"
	"seckill/client"
)

func (p *program) activity() *cobra.Command {
	cmd := group("activity", "Create, look at and steer activities")
	cmd.AddCommand(p.activityCreate(), p.activityList(), p.activityShow())
	for _, c := range []struct {
		use, short string
		do         func(*client.Admin, context.Context, int64) (client.AdminActivity, error)
	}{
		{"preload", "Put an activity into the stock now", (*client.Admin).Preload},
		{"pause", "Stop a sale for a while", (*client.Admin).Pause},
		{"resume", "Let a paused sale go on", (*client.Admin).Resume},
		{"close", "End a run before its time", (*client.Admin).Close},
	} {
		cmd.AddCommand(p.activityCommand(c.use, c.short, c.do))
	}
	cmd.AddCommand(p.activityRestock(), p.activityRerun(), p.activityAudience())
	return cmd
}

const timeForm = "RFC 3339 such as 2026-11-11T20:00:00+08:00, now, or +DURATION such as +10m"

// when reads a moment from the command line.
func when(flag, text string, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if len(text) > 1 && text[0] == '+' {
		if d, err := time.ParseDuration(text[1:]); err == nil && d >= 0 {
			return now.Add(d), nil
		}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, &mistake{"--" + flag, fmt.Sprintf("%q is not a moment", text), timeForm}
	}
	return t, nil
}

// window reads the flags of a run's window.
type window struct {
	startsAt, endsAt string
	lasts            time.Duration
}

func (w *window) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.startsAt, "starts-at", "", "when buyers may buy: "+timeForm+"; required")
	cmd.Flags().StringVar(&w.endsAt, "ends-at", "", "when the sale ends, in the same form")
	cmd.Flags().DurationVar(&w.lasts, "for", 0, "how long the sale lasts, instead of --ends-at: a duration such as 1h")
}

func (w *window) read() (from, to time.Time, err error) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	if w.startsAt == "" {
		return from, to, &mistake{"--starts-at", "is required", timeForm}
	}
	if from, err = when("starts-at", w.startsAt, now); err != nil {
		return from, to, err
	}
	switch {
	case w.endsAt != "" && w.lasts != 0:
		return from, to, &mistake{"--for", "contradicts --ends-at", "one of the two"}
	case w.lasts > 0:
		return from, from.Add(w.lasts), nil
	case w.lasts < 0 || w.endsAt == "":
		return from, to, &mistake{"--ends-at", "is required, or --for", timeForm + "; or a duration for --for"}
	}
	to, err = when("ends-at", w.endsAt, now)
	return from, to, err
}

func (p *program) activityCreate() *cobra.Command {
	var n client.NewActivity
	var w window
	var preload, payment time.Duration
	cmd := &cobra.Command{
		Use: "create --name NAME --stock N --starts-at WHEN (--ends-at WHEN | --for TIME)", Short: "Create an activity", Args: exactly(),
		Example: "  seckill activity create --name Kettle --stock 100 --price-cents 9900 --starts-at +10m --for 1h",
	}
	o := p.operatorFlags(cmd, true)
	f := cmd.Flags()
	f.StringVar(&n.Name, "name", "", "what is sold; required")
	f.Int64Var(&n.Stock, "stock", 0, "units of the first run; required")
	w.flags(cmd)
	f.StringVar(&n.Description, "description", "", "a few sentences for buyers")
	f.Int64Var(&n.PriceCents, "price-cents", 0, "price of a unit, in whole cents")
	f.IntVar(&n.LimitPerUser, "limit-per-user", 1, "units that one buyer may hold")
	f.IntVar(&n.SubStocks, "sub-stocks", 1, "parts that the stock is spread over")
	f.DurationVar(&preload, "preload-before", 5*time.Minute, "how long before the start the stock is loaded, in whole seconds")
	f.DurationVar(&payment, "payment-window", 15*time.Minute, "how long an order waits for its payment, in whole seconds")
	f.BoolVar(&n.Challenge, "challenge", false, "ask buyers for a proof of work")
	f.BoolVar(&n.EntryToken, "entry-token", false, "ask buyers for an entry token")
	f.StringVar((*string)(&n.Audience), "audience", "everyone", "everyone, or listed buyers")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if n.StartsAt, n.EndsAt, err = w.read(); err != nil {
			return err
		}
		for _, required := range []string{"name", "stock"} {
			if !f.Changed(required) {
				return &mistake{"--" + required, "is required", f.Lookup(required).Usage}
			}
		}
		for flag, d := range map[string]time.Duration{"preload-before": preload, "payment-window": payment} {
			if d%time.Second != 0 {
				return &mistake{"--" + flag, d.String() + " has a part of a second", "whole seconds"}
			}
		}
		before := int64(preload / time.Second)
		n.PreloadBeforeSeconds, n.PaymentWindowSeconds = &before, int64(payment/time.Second)
		return p.changed(cmd.Context(), o, func(ctx context.Context, a *client.Admin) (client.AdminActivity, error) {
			return a.CreateActivity(ctx, n)
		})
	}
	return cmd
}

// changed makes a call whose answer is an activity, and prints it.
func (p *program) changed(ctx context.Context, o *operator, do func(context.Context, *client.Admin) (client.AdminActivity, error)) error {
	a, err := o.connect()
	if err != nil {
		return err
	}
	got, err := do(ctx, a)
	return o.answer(err, func() { p.showActivity(&got) })
}

// byID makes a command that takes an activity's id.
func (p *program) byID(use, short string, changes bool, do func(context.Context, *client.Admin, int64) (client.AdminActivity, error)) *cobra.Command {
	cmd := &cobra.Command{Use: use + " ID", Short: short, Args: exactly("ID")}
	o := p.operatorFlags(cmd, changes)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := number(args[0])
		if err != nil {
			return err
		}
		return p.changed(cmd.Context(), o, func(ctx context.Context, a *client.Admin) (client.AdminActivity, error) { return do(ctx, a, id) })
	}
	return cmd
}

func (p *program) activityCommand(use, short string, do func(*client.Admin, context.Context, int64) (client.AdminActivity, error)) *cobra.Command {
	return p.byID(use, short, true, func(ctx context.Context, a *client.Admin, id int64) (client.AdminActivity, error) {
		return do(a, ctx, id)
	})
}

func (p *program) activityShow() *cobra.Command {
	return p.byID("show", "Show an activity and its books", false, func(ctx context.Context, a *client.Admin, id int64) (client.AdminActivity, error) {
		return a.Activity(ctx, id)
	})
}

// pagesMax bounds what a table shows; --json with --cursor reads on.
const pagesMax = 10

func (p *program) activityList() *cobra.Command {
	var cursor string
	cmd := &cobra.Command{Use: "list", Short: "List the activities", Args: exactly()}
	o := p.operatorFlags(cmd, false)
	cmd.Flags().StringVar(&cursor, "cursor", "", "go on after this, from an earlier answer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a, err := o.connect()
		if err != nil {
			return err
		}
		list, next, err := a.Activities(cmd.Context(), cursor)
		for page := 1; err == nil && next != "" && !o.json && page < pagesMax; page++ {
			var more []client.AdminActivity
			more, next, err = a.Activities(cmd.Context(), next)
			list = append(list, more...)
		}
		return o.answer(err, func() { p.listActivities(list, next) })
	}
	return cmd
}

func (p *program) listActivities(list []client.AdminActivity, next string) {
	rows := [][]string{{"ID", "NAME", "STATE", "RUN", "STARTS", "ENDS", "PRICE", "TOTAL", "AVAILABLE", "QUEUED", "AWAITING", "PAID", "DEAD", "BALANCED"}}
	for i := range list {
		a := &list[i]
		row := []string{strconv.FormatInt(a.ID, 10), a.Name, string(a.State), strconv.Itoa(a.Run), moment(a.StartsAt), moment(a.EndsAt), cents(a.PriceCents)}
		rows = append(rows, append(row, bookCells(a.Total, a.Books)...))
	}
	if len(list) == 0 {
		fmt.Fprintln(p.stdout, "There are no activities. `seckill activity create` makes one.")
		return
	}
	table(p.stdout, rows)
	if next != "" {
		fmt.Fprintf(p.stdout, "There are more: --cursor %s\n", printable(next))
	}
}

func bookCells(total int64, b *seckill.Books) []string {
	text := func(n int64) string { return strconv.FormatInt(n, 10) }
	if b == nil {
		return []string{text(total), "?", "?", "?", "?", "?", "?"}
	}
	return []string{text(b.Total), text(b.Available), text(b.Queued), text(b.AwaitingPayment), text(b.Paid), text(b.Dead), yes(b.Balanced)}
}

func (p *program) showActivity(a *client.AdminActivity) {
	rows := [][]string{
		{"id", strconv.FormatInt(a.ID, 10)}, {"name", a.Name}, {"description", a.Description}, {"state", string(a.State)},
		{"run", strconv.Itoa(a.Run)}, {"starts", moment(a.StartsAt)}, {"ends", moment(a.EndsAt)}, {"price", cents(a.PriceCents)},
		{"limit per buyer", strconv.Itoa(a.LimitPerUser)}, {"sub-stocks", strconv.Itoa(a.SubStocks)},
		{"preloaded before", (time.Duration(a.PreloadBeforeSeconds) * time.Second).String()},
		{"payment window", (time.Duration(a.PaymentWindowSeconds) * time.Second).String()}, {"audience", string(a.Audience)},
		{"challenge", strconv.FormatBool(a.Challenge)}, {"entry token", strconv.FormatBool(a.EntryToken)},
	}
	if a.Books != nil {
		rows = append(rows, []string{"books", equation(a.Books)})
	}
	table(p.stdout, rows)
}

const equationForm = "%d total %s %d available + %d queued + %d awaiting payment + %d paid + %d dead: %s"

// equation writes books as the sum that they have to be.
func equation(b *seckill.Books) string { return equationIn(&english, b) }

func equationIn(words *demoWords, b *seckill.Books) string {
	sign, verdict := "=", words.balanced
	if !b.Balanced {
		sign, verdict = "≠", words.unbalanced
	}
	return fmt.Sprintf(words.equation, b.Total, sign, b.Available, b.Queued, b.AwaitingPayment, b.Paid, b.Dead, verdict)
}

func (p *program) activityRestock() *cobra.Command {
	var quantity int64
	cmd := &cobra.Command{
		Use: "restock ID --quantity N", Short: "Add units to a run, also while it is open", Args: exactly("ID"),
		Long: "Add units to a run, also while it is open. A negative quantity takes away at most what is available.",
	}
	o := p.operatorFlags(cmd, true)
	cmd.Flags().Int64Var(&quantity, "quantity", 0, "units to add, or to take away if negative; required")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := number(args[0])
		if err != nil {
			return err
		}
		if quantity == 0 {
			return &mistake{"--quantity", "is required", "a whole number, not 0"}
		}
		a, err := o.connect()
		if err != nil {
			return err
		}
		got, err := a.Restock(cmd.Context(), id, quantity)
		return o.answer(err, func() {
			if got.Pending {
				fmt.Fprintln(p.stdout, "The stock could not be told yet; it will be, by itself.")
			} else {
				fmt.Fprintf(p.stdout, "%+d units.\n", got.Restocked)
			}
			p.showActivity(&got.AdminActivity)
		})
	}
	return cmd
}

func (p *program) activityRerun() *cobra.Command {
	var w window
	var stock int64
	cmd := &cobra.Command{Use: "rerun ID --stock N --starts-at WHEN (--ends-at WHEN | --for TIME)", Short: "Start a new run of an activity that has ended", Args: exactly("ID")}
	o := p.operatorFlags(cmd, true)
	cmd.Flags().Int64Var(&stock, "stock", 0, "units of the new run; required")
	w.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := number(args[0])
		if err != nil {
			return err
		}
		from, to, err := w.read()
		if err != nil {
			return err
		}
		if !cmd.Flags().Changed("stock") {
			return &mistake{"--stock", "is required", "units of the new run"}
		}
		return p.changed(cmd.Context(), o, func(ctx context.Context, a *client.Admin) (client.AdminActivity, error) {
			return a.Rerun(ctx, id, from, to, stock)
		})
	}
	return cmd
}
