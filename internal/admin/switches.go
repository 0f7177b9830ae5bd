package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"seckill"
)

// switchboard turns switches. What it tells is what this node goes by.
type switchboard interface {
	States() []seckill.SwitchState
	// Stale is how old that is.
	Stale() time.Duration
	SetSwitch(ctx context.Context, name string, value int64, by seckill.Actor) (seckill.SwitchState, error)
	PlanSwitch(ctx context.Context, name string, value int64, at time.Time, by seckill.Actor) (seckill.SwitchState, error)
	CancelPlan(ctx context.Context, name string, id int64, by seckill.Actor) error
}

// plannedWithin bounds how far ahead a switch can be turned.
const plannedWithin = 366 * 24 * time.Hour

// switchView is a switch as the API shows it.
type switchView struct {
	Name      string     `json:"name"`
	Value     any        `json:"value"` // A boolean, or a whole number.
	Default   any        `json:"default"`
	ChangedAt *time.Time `json:"changed_at"` // null if nobody has turned it yet, as are the next two.
	ChangedBy *string    `json:"changed_by"`
	Reason    *string    `json:"reason"`
	Scheduled []planView `json:"scheduled"`
}

type planView struct {
	ID     int64     `json:"id"`
	Value  any       `json:"value"`
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

func showSwitch(known seckill.Switch, s seckill.SwitchState) switchView {
	v := switchView{Name: s.Name, Value: known.Shown(s.Value), Default: known.Shown(known.Default), Scheduled: []planView{}}
	if !s.ChangedAt.IsZero() {
		at := s.ChangedAt.UTC()
		v.ChangedAt, v.ChangedBy, v.Reason = &at, &s.ChangedBy.Who, &s.ChangedBy.Reason
	}
	for _, p := range s.Scheduled {
		v.Scheduled = append(v.Scheduled, planView{p.ID, known.Shown(p.Value), p.At.UTC(), p.By.Who, p.By.Reason})
	}
	return v
}

// guardView is what acts by itself, and why it acted.
type guardView struct {
	Name   string     `json:"name"`
	Acting bool       `json:"acting"`
	Since  *time.Time `json:"since"` // null if it never acted.
	Reason string     `json:"reason"`
	Figure string     `json:"figure"`
}

type switchList struct {
	Switches []switchView `json:"switches"`
	Guards   []guardView  `json:"guards"`
	// StaleSeconds is how old this is when the database cannot be asked.
	StaleSeconds float64 `json:"stale_seconds,omitempty"`
}

// staleAfter is when it is worth telling how old a node's knowledge is.
const staleAfter = 2 * time.Second

func (s *Server) listSwitches(*http.Request) (answer, error) {
	list := switchList{Switches: []switchView{}, Guards: []guardView{}}
	for _, state := range s.o.Switches.States() {
		if known, ok := seckill.SwitchNamed(state.Name); ok {
			list.Switches = append(list.Switches, showSwitch(known, state))
		}
	}
	if s.o.Guards != nil {
		for _, g := range s.o.Guards() {
			v := guardView{Name: g.Name, Acting: g.Acting, Reason: g.Reason, Figure: g.Figure}
			if !g.Since.IsZero() {
				since := g.Since.UTC()
				v.Since = &since
			}
			list.Guards = append(list.Guards, v)
		}
	}
	if stale := s.o.Switches.Stale(); stale > staleAfter {
		list.StaleSeconds = stale.Truncate(100 * time.Millisecond).Seconds()
	}
	return answer{status: http.StatusOK, body: list}, nil
}

// switchChange is the body of a request to turn a switch.
type switchChange struct {
	Value  json.RawMessage `json:"value"`
	Reason *string         `json:"reason"`
	At     *time.Time      `json:"at"`
	DryRun *bool           `json:"dry_run"`
}

func (s *Server) setSwitch(r *http.Request) (answer, error) {
	known, ok := seckill.SwitchNamed(r.PathValue("name"))
	if !ok {
		return answer{}, seckill.ErrNotFound
	}
	var c switchChange
	err := body(r, &c, false)
	by, wrong := because(r, c.Reason)
	value, bad := switchValue(known, c.Value)
	wrong = append(wrong, bad...)
	if c.At != nil {
		wrong = append(wrong, future("at", *c.At, time.Now())...)
	}
	if err := merge(err, wrong); err != nil {
		return answer{}, err
	}
	var state seckill.SwitchState
	switch {
	case or(c.DryRun, false):
		return s.dryRun(r.Context(), known, value, c.At)
	case c.At != nil:
		state, err = s.o.Switches.PlanSwitch(r.Context(), known.Name, value, *c.At, by)
	default:
		state, err = s.o.Switches.SetSwitch(r.Context(), known.Name, value, by)
	}
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: showSwitch(known, state)}, nil
}

func (s *Server) cancelSwitch(r *http.Request) (answer, error) {
	known, ok := seckill.SwitchNamed(r.PathValue("name"))
	if !ok {
		return answer{}, seckill.ErrNotFound
	}
	id, err := pathID(r)
	if err != nil {
		return answer{}, err
	}
	var c commandBody
	err = body(r, &c, true)
	by, wrong := actor(r, c.Reason)
	if err := merge(err, wrong); err != nil {
		return answer{}, err
	}
	if err := s.o.Switches.CancelPlan(r.Context(), known.Name, id, by); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, nil
}

// switchValue reads a value of the kind that a switch has. One that is not there is refused as such elsewhere.
func switchValue(known seckill.Switch, raw json.RawMessage) (int64, []seckill.FieldError) {
	wrong := func(rule seckill.Rule, arg string) (int64, []seckill.FieldError) {
		return 0, []seckill.FieldError{{Field: "value", Rule: rule, Arg: arg}}
	}
	text := string(raw)
	if !known.Percent {
		switch text {
		case "":
			return 0, nil
		case "true":
			return 1, nil
		case "false":
			return 0, nil
		}
		return wrong(seckill.RuleType, "boolean")
	}
	digits := strings.TrimPrefix(text, "-")
	if text == "" {
		return 0, nil
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return wrong(seckill.RuleType, "integer")
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case digits != text && (err != nil || n < 0):
		return wrong(seckill.RuleMin, "0")
	case err != nil || n > known.Max():
		return wrong(seckill.RuleMax, strconv.FormatInt(known.Max(), 10))
	}
	return n, nil
}

// because is actor for what must not be done without a reason.
func because(r *http.Request, reason *string) (seckill.Actor, []seckill.FieldError) {
	by, wrong := actor(r, reason)
	if len(wrong) == 0 && strings.TrimSpace(by.Reason) == "" {
		wrong = []seckill.FieldError{{Field: "reason", Rule: seckill.RuleRequired}}
	}
	return by, wrong
}

// future checks a moment that has to be ahead, but not out of all bounds.
func future(field string, at, now time.Time) []seckill.FieldError {
	switch last := now.Add(plannedWithin); {
	case !at.After(now):
		return []seckill.FieldError{{Field: field, Rule: seckill.RuleAfter, Arg: "now"}}
	case at.After(last):
		return []seckill.FieldError{{Field: field, Rule: seckill.RuleMax, Arg: last.UTC().Format(time.RFC3339)}}
	}
	return nil
}

// trial says what a change of a switch would do.
type trial struct {
	DryRun bool       `json:"dry_run"`
	Name   string     `json:"name"`
	From   any        `json:"from"`
	To     any        `json:"to"`
	At     *time.Time `json:"at,omitempty"`
	Effect effect     `json:"effect"`
}

// effect is what buyers would feel, by the figures of this moment.
type effect struct {
	Says           string `json:"says"`
	OpenActivities int    `json:"open_activities"`
	// RefusedPercent is the share of purchases that this switch would refuse.
	RefusedPercent int64 `json:"refused_percent"`
	// PurchasesPerSecond is how many are asked for now, and RefusedPerSecond how many of them would
	// be refused; null if that is not known.
	PurchasesPerSecond *float64 `json:"purchases_per_second"`
	RefusedPerSecond   *float64 `json:"refused_per_second"`
}

func (s *Server) dryRun(ctx context.Context, known seckill.Switch, value int64, at *time.Time) (answer, error) {
	was := known.Default
	for _, state := range s.o.Switches.States() {
		if state.Name == known.Name {
			was = state.Value
		}
	}
	e := effect{RefusedPercent: refusedPercent(known.Name, value)}
	all, err := s.o.Operator.List(ctx)
	if err != nil {
		return answer{}, err
	}
	unchallenged := 0
	for _, a := range all {
		if a.State(time.Now(), false) == seckill.StateOpen {
			e.OpenActivities++
			if !a.Challenge {
				unchallenged++
			}
		}
	}
	rate := ""
	if s.o.PurchaseRate != nil {
		if perSecond, known := s.o.PurchaseRate(); known {
			refused := perSecond * float64(e.RefusedPercent) / 100
			e.PurchasesPerSecond, e.RefusedPerSecond = &perSecond, &refused
			rate = fmt.Sprintf(" About %.0f purchases a second are asked for now; about %.0f of them would be refused.", perSecond, refused)
		}
	}
	e.Says = says(known, value, unchallenged) + rate
	if was == value {
		e.Says = "It would change nothing: it stands so already."
	}
	t := trial{DryRun: true, Name: known.Name, From: known.Shown(was), To: known.Shown(value), Effect: e}
	if at != nil {
		utc := at.UTC()
		t.At = &utc
	}
	return answer{status: http.StatusOK, body: t}, nil
}

func refusedPercent(name string, value int64) int64 {
	switch {
	case name == seckill.SwitchAdmissionPercent:
		return 100 - value
	case name == seckill.SwitchIntake && value == 0:
		return 100
	}
	return 0
}

func says(known seckill.Switch, value int64, unchallenged int) string {
	switch on := value != 0; {
	case known.Percent:
		return fmt.Sprintf("%d %% of the purchases would go through to the stock, the others would be refused before it.", value)
	case known.Name == seckill.SwitchIntake && !on:
		return "Every purchase would be refused. Buyers who hold a ticket would not notice."
	case known.Name == seckill.SwitchIntake:
		return "Purchases would be let in again."
	case known.Name == seckill.SwitchConsumers && !on:
		return "No reservation would become an order until it is turned on again: buyers would wait, and the backlog would grow."
	case known.Name == seckill.SwitchConsumers:
		return "Waiting reservations would become orders again."
	case on:
		return fmt.Sprintf("Buyers of %d more open activities would have to solve a challenge first.", unchallenged)
	}
	return fmt.Sprintf("Buyers of %d open activities would not have to solve a challenge any more.", unchallenged)
}
