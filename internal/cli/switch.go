package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seckill"
	"seckill/client"
)

func (p *program) switches() *cobra.Command {
	cmd := group("switch", "Turn what holds buyers back, on every node within a second")
	cmd.AddCommand(p.switchList(), p.switchSet(), p.switchCancel())
	return cmd
}

func (p *program) switchList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the switches, and what acts by itself", Args: exactly()}
	o := p.operatorFlags(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a, err := o.connect()
		if err != nil {
			return err
		}
		got, err := a.Switches(cmd.Context())
		return o.answer(err, func() { p.showSwitches(&got) })
	}
	return cmd
}

func (p *program) showSwitches(all *client.Switches) {
	rows := [][]string{{"SWITCH", "VALUE", "DEFAULT", "CHANGED", "BY", "REASON"}}
	for i := range all.Switches {
		rows = append(rows, switchRow(&all.Switches[i]))
	}
	table(p.stdout, rows)
	p.showPlans(all.Switches)
	if len(all.Guards) > 0 {
		rows = [][]string{{"GUARD", "ACTING", "SINCE", "FIGURE", "REASON"}}
		for _, g := range all.Guards {
			rows = append(rows, []string{g.Name, strconv.FormatBool(g.Acting), when0(g.Since), first(g.Figure, "-"), first(g.Reason, "-")})
		}
		fmt.Fprintln(p.stdout)
		table(p.stdout, rows)
	}
	if all.StaleSeconds > 0 {
		fmt.Fprintf(p.stdout, "The server cannot ask its database: this is %.1f s old.\n", all.StaleSeconds)
	}
}

func switchRow(s *client.Switch) []string {
	return []string{s.Name, string(s.Value), string(s.Default), when0(s.ChangedAt), first(s.ChangedBy, "-"), first(s.Reason, "-")}
}

// when0 is a moment that may not be.
func when0(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return moment(*t)
}

func (p *program) showPlans(list []client.Switch) {
	rows := [][]string{{"SCHEDULED", "SWITCH", "VALUE", "AT", "BY", "REASON"}}
	for i := range list {
		for _, plan := range list[i].Scheduled {
			rows = append(rows, []string{strconv.FormatInt(plan.ID, 10), list[i].Name, string(plan.Value), moment(plan.At), plan.By, plan.Reason})
		}
	}
	if len(rows) > 1 {
		fmt.Fprintln(p.stdout)
		table(p.stdout, rows)
	}
}

// switchNamed reads a switch's name from the command line.
func switchNamed(text string) (seckill.Switch, error) {
	var names []string
	for _, s := range seckill.AllSwitches() {
		if s.Name == text {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return seckill.Switch{}, &mistake{"NAME", fmt.Sprintf("%q is not a switch", text), strings.Join(names, ", ")}
}

// switchValue reads a value from the command line.
func switchValue(s seckill.Switch, text string) (any, error) {
	if s.Percent {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > s.Max() {
			return nil, &mistake{"VALUE", fmt.Sprintf("%q is not a percentage", text), "a whole number from 0 to 100"}
		}
		return n, nil
	}
	switch text {
	case "true", "on":
		return true, nil
	case "false", "off":
		return false, nil
	}
	return nil, &mistake{"VALUE", fmt.Sprintf("%q is neither on nor off", text), "true or on, false or off"}
}

// needReason wants to know why.
func (o *operator) needReason() error {
	if strings.TrimSpace(o.reason) == "" {
		return &mistake{"--reason", "is required", "one line of text, for the audit log"}
	}
	return nil
}

func (p *program) switchSet() *cobra.Command {
	var at string
	var dry bool
	cmd := &cobra.Command{
		Use: "set NAME VALUE --reason WHY", Short: "Turn a switch, now or later", Args: exactly("NAME", "VALUE"),
		Long: `Turn a switch, now or later.

  intake             on or off: whether purchases are let in
  admission_percent  0 to 100: the share of purchases that is let through to the stock
  challenge          on or off: whether every activity asks for a proof of work
  consumers          on or off: whether reservations become orders`,
		Example: "  seckill switch set intake off --reason 'the payment provider is down'\n" +
			"  seckill switch set admission_percent 50 --at +10m --reason 'as rehearsed' --dry-run",
	}
	o := p.operatorFlags(cmd, true)
	cmd.Flags().StringVar(&at, "at", "", "later: "+timeForm)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "change nothing, and say what it would do")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		known, err := switchNamed(args[0])
		if err != nil {
			return err
		}
		value, err := switchValue(known, args[1])
		if err != nil {
			return err
		}
		if err := o.needReason(); err != nil {
			return err
		}
		change := client.SwitchChange{Value: value, Reason: o.reason}
		if at != "" && at != "now" {
			t, err := when("at", at, time.Now().UTC().Truncate(time.Millisecond))
			if err != nil {
				return err
			}
			change.At = &t
		}
		a, err := o.connect()
		if err != nil {
			return err
		}
		if dry {
			trial, err := a.TrySwitch(cmd.Context(), known.Name, change)
			return o.answer(err, func() { fmt.Fprintln(p.stdout, printable(trial.Effect.Says)) })
		}
		got, err := a.SetSwitch(cmd.Context(), known.Name, change)
		return o.answer(err, func() { p.showSwitches(&client.Switches{Switches: []client.Switch{got}}) })
	}
	return cmd
}

func (p *program) switchCancel() *cobra.Command {
	cmd := &cobra.Command{Use: "cancel NAME ID", Short: "Take back a scheduled change", Args: exactly("NAME", "ID")}
	o := p.operatorFlags(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		known, err := switchNamed(args[0])
		if err != nil {
			return err
		}
		id, err := number(args[1])
		if err != nil {
			return err
		}
		a, err := o.connect()
		if err != nil {
			return err
		}
		err = a.CancelSwitch(cmd.Context(), known.Name, id)
		return o.done(err, fmt.Sprintf("scheduled change %d of %s: taken back", id, known.Name))
	}
	return cmd
}

// done says that a call without an answer went well; under --json nothing, as there is none.
func (o *operator) done(err error, line string) error {
	if err != nil {
		return told(err)
	}
	if !o.json {
		fmt.Fprintln(o.p.stdout, line)
	}
	return nil
}
