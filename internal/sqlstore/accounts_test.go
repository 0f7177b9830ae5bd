package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seckill"
)

func (p *place) account(t *testing.T, name string, role seckill.Role, password string) seckill.Account {
	t.Helper()
	a, err := p.AddAccount(t.Context(), seckill.Account{Name: name, Role: role}, password, operator)
	must(t, err)
	return a
}

func refusedAs(t *testing.T, what string, err error, want seckill.Reason) {
	t.Helper()
	refusal, ok := errors.AsType[*seckill.Refusal](err)
	if !ok || refusal.Reason != want {
		t.Fatalf("%s: got %v, want %v", what, err, want)
	}
}

// An account is there once by its name, is changed in what is given and nothing else, and goes; each
// with who, from where and why, and never with a password.
func claimAccounts(t *testing.T, p *place) {
	ctx := t.Context()
	list, err := p.Accounts(ctx)
	must(t, err)
	equal(t, "accounts of an empty database", len(list), 0)
	ann := p.account(t, "ann", seckill.RoleViewer, "hash-of-ann")
	equal(t, "audit", p.lastAudit(t), `account.create account/ann by operator from 192.0.2.1: a test {"role":"viewer"}`)
	if ann.Name != "ann" || ann.Role != seckill.RoleViewer || ann.Disabled || time.Since(ann.CreatedAt).Abs() > time.Minute || ann.ChangedAt != ann.CreatedAt {
		t.Fatalf("made: %+v", ann)
	}
	_, err = p.AddAccount(ctx, seckill.Account{Name: "ann", Role: seckill.RoleAdmin}, "other", operator)
	refusedAs(t, "the same name again", err, seckill.Conflict)
	bob := p.account(t, "bob", seckill.RoleAdmin, "hash-of-bob")
	list, err = p.Accounts(ctx)
	must(t, err)
	if want := []seckill.Account{ann, bob}; !reflect.DeepEqual(list, want) {
		t.Fatalf("list: got %+v, want %+v", list, want)
	}

	role, yes, hash := seckill.RoleOperator, true, "new-hash"
	for _, c := range []struct {
		change   seckill.AccountChange
		detail   string
		role     seckill.Role
		disabled bool
		password string
	}{
		{seckill.AccountChange{Role: &role}, `{"role":"operator"}`, "operator", false, "hash-of-ann"},
		{seckill.AccountChange{Password: &hash}, `{"password":"changed"}`, "operator", false, "new-hash"},
		{seckill.AccountChange{Disabled: &yes}, `{"disabled":true}`, "operator", true, "new-hash"},
	} {
		changed, err := p.ChangeAccount(ctx, "ann", c.change, operator)
		must(t, err)
		got, password, err := p.Credentials(ctx, "ann")
		must(t, err)
		if got != changed || got.Role != c.role || got.Disabled != c.disabled || password != c.password || got.CreatedAt != ann.CreatedAt || got.ChangedAt.Before(ann.ChangedAt) {
			t.Fatalf("after %s: %+v, password %s", c.detail, got, password)
		}
		equal(t, "audit", p.lastAudit(t), "account.change account/ann by operator from 192.0.2.1: a test "+c.detail)
	}
	_, password, err := p.Credentials(ctx, "bob")
	must(t, err)
	equal(t, "the other's password", password, "hash-of-bob")

	must(t, p.RemoveAccount(ctx, "ann", operator))
	equal(t, "audit", p.lastAudit(t), "account.remove account/ann by operator from 192.0.2.1: a test {}")
	for _, name := range []string{"ann", "nobody", "bob ", "Bob", ""} {
		_, _, found := p.Credentials(ctx, name)
		_, changed := p.ChangeAccount(ctx, name, seckill.AccountChange{Disabled: &yes}, operator)
		removed := p.RemoveAccount(ctx, name, operator)
		if !errors.Is(found, seckill.ErrNotFound) || !errors.Is(changed, seckill.ErrNotFound) || !errors.Is(removed, seckill.ErrNotFound) {
			t.Errorf("%q: %v, %v, %v", name, found, changed, removed)
		}
	}
	entries, err := p.Audit(ctx, 0, 100)
	must(t, err)
	if text := fmt.Sprint(entries); strings.Contains(text, "hash") {
		t.Errorf("the audit log has a password: %s", text)
	}
}

// There is a bound, also for those who come together; of two of one name one is made.
func claimAccountsAreBounded(t *testing.T, p *place) {
	for i := range accountsMax - 1 {
		p.raw(t, "INSERT INTO seckill_account (name, password, role, disabled, create_time, change_time) VALUES (?,'x','viewer',0,'2026-01-01 00:00:00.000000','2026-01-01 00:00:00.000000')",
			fmt.Sprint("n", i))
	}
	var made atomic.Int64
	var adds []func(context.Context) error
	for _, name := range []string{"a", "a", "b", "c"} {
		adds = append(adds, func(ctx context.Context) error {
			_, err := p.AddAccount(ctx, seckill.Account{Name: name, Role: seckill.RoleViewer}, "x", operator)
			if refusal, ok := errors.AsType[*seckill.Refusal](err); ok && refusal.Reason == seckill.Conflict {
				return nil
			}
			made.Add(1)
			return err
		})
	}
	together(t, adds...)
	equal(t, "made", made.Load(), 1)
	list, err := p.Accounts(t.Context())
	must(t, err)
	equal(t, "accounts", len(list), accountsMax)
}

// A session tells who it is, with the role of now, until it is closed, too old or too long unused.
func claimSessions(t *testing.T, p *place) {
	ctx := t.Context()
	p.account(t, "ann", seckill.RoleOperator, "hash")
	by := seckill.Actor{Who: "ann", From: "192.0.2.9"}
	opened, err := p.OpenSession(ctx, "s1", "ann", "hash", time.Hour, by)
	must(t, err)
	equal(t, "audit", p.lastAudit(t), "session.login account/ann by ann from 192.0.2.9:  {}")
	got, unused, err := p.Session(ctx, "s1", time.Minute)
	must(t, err)
	if got != opened || got.Name != "ann" || got.Role != seckill.RoleOperator || unused < 0 || unused > time.Minute || got.EndsAt.Sub(got.SeenAt) != time.Hour {
		t.Fatalf("session: %+v, unused for %v, want %+v", got, unused, opened)
	}
	token, err := p.OpenSession(ctx, "s2", "", "", time.Hour, seckill.Actor{Who: seckill.TokenName})
	must(t, err)
	got, _, err = p.Session(ctx, "s2", time.Minute)
	must(t, err)
	if got != token || got.Name != seckill.TokenName || got.Role != seckill.RoleAdmin {
		t.Fatalf("session by token: %+v, want %+v", got, token)
	}

	gone := func(what, id string) {
		t.Helper()
		if _, _, err := p.Session(ctx, id, time.Minute); !errors.Is(err, seckill.ErrNotFound) {
			t.Fatalf("%s: got %v, want not found", what, err)
		}
	}
	gone("one that never was", "s3")
	past := formatTime(time.Now().Add(-2 * time.Minute))
	p.raw(t, "UPDATE seckill_session SET seen_time = ? WHERE id = 's1'", past)
	gone("two minutes unused", "s1")
	must(t, p.TouchSession(ctx, "s1"))
	_, _, err = p.Session(ctx, "s1", time.Minute)
	must(t, err)
	p.raw(t, "UPDATE seckill_session SET end_time = ? WHERE id = 's1'", past)
	gone("too old", "s1")
	_, err = p.OpenSession(ctx, "s4", "ann", "hash", time.Hour, by)
	must(t, err)
	var rows int
	must(t, p.reader().row(ctx, "SELECT COUNT(*) FROM seckill_session WHERE id = 's1'", nil, &rows))
	equal(t, "rows of an old session after another login", rows, 0)

	must(t, p.CloseSession(ctx, "s4", by))
	equal(t, "audit", p.lastAudit(t), "session.logout account/ann by ann from 192.0.2.9:  {}")
	gone("closed", "s4")
	before, err := p.Audit(ctx, 0, 100)
	must(t, err)
	must(t, p.CloseSession(ctx, "s4", by))
	after, err := p.Audit(ctx, 0, 100)
	must(t, err)
	equal(t, "lines of audit after closing it twice", len(after), len(before))
}

// Whatever is changed of an account ends its sessions and nobody else's, and a login that began
// before the change does not get through after it. Sessions are bounded: the oldest end.
func claimSessionsEnd(t *testing.T, p *place) {
	ctx := t.Context()
	p.account(t, "ann", seckill.RoleOperator, "hash")
	p.account(t, "bob", seckill.RoleOperator, "hash")
	login := func(id, name, verified string) error {
		_, err := p.OpenSession(ctx, id, name, verified, time.Hour, operator)
		return err
	}
	here := func(id string) bool {
		_, _, err := p.Session(ctx, id, time.Hour)
		if err != nil && !errors.Is(err, seckill.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	role, yes, no, hash := seckill.RoleViewer, true, false, "hash2"
	must(t, login("bob", "bob", "hash"))
	for i, change := range []seckill.AccountChange{{Role: &role}, {Disabled: &yes}, {Disabled: &no}, {Password: &hash}} {
		id := fmt.Sprint("s", i)
		err := login(id, "ann", "hash")
		if i == 2 {
			refusedAs(t, "a login of who is disabled", err, seckill.Unauthenticated)
		} else {
			must(t, err)
		}
		_, err = p.ChangeAccount(ctx, "ann", change, operator)
		must(t, err)
		if here(id) || !here("bob") {
			t.Fatalf("after change %d: ann's session %v, bob's %v; want false, true", i, here(id), here("bob"))
		}
	}
	refusedAs(t, "a login with the password of before", login("s9", "ann", "hash"), seckill.Unauthenticated)
	refusedAs(t, "a login of nobody", login("s9", "eve", "hash"), seckill.Unauthenticated)
	must(t, p.RemoveAccount(ctx, "bob", operator))
	if here("bob") {
		t.Error("the session of who was removed lives")
	}
	// Past the store, as if another node had not ended it.
	must(t, login("s10", "ann", "hash2"))
	p.raw(t, "UPDATE seckill_account SET disabled = 1 WHERE name = 'ann'")
	if here("s10") {
		t.Error("the session of who is disabled lives")
	}
	for i := range sessionsMax + 3 {
		must(t, login(fmt.Sprint("t", i), "", ""))
	}
	if here("t2") || !here("t3") || !here(fmt.Sprint("t", sessionsMax+2)) {
		t.Errorf("of %d sessions: the third %v, the fourth %v, the last %v; want false, true, true",
			sessionsMax+3, here("t2"), here("t3"), here(fmt.Sprint("t", sessionsMax+2)))
	}
}

// Logins of one account beside a change of it all end, and none of them is left open after the change.
func claimLoginsTogether(t *testing.T, p *place) {
	p.account(t, "ann", seckill.RoleOperator, "hash")
	yes := true
	all := []func(context.Context) error{func(ctx context.Context) error {
		_, err := p.ChangeAccount(ctx, "ann", seckill.AccountChange{Disabled: &yes}, operator)
		return err
	}}
	for i := range 12 {
		all = append(all, func(ctx context.Context) error {
			_, err := p.OpenSession(ctx, fmt.Sprint("s", i), "ann", "hash", time.Hour, operator)
			if refusal, ok := errors.AsType[*seckill.Refusal](err); ok && refusal.Reason == seckill.Unauthenticated {
				return nil
			}
			return err
		})
	}
	together(t, all...)
	var rows int
	must(t, p.reader().row(t.Context(), "SELECT COUNT(*) FROM seckill_session", nil, &rows))
	equal(t, "sessions after the account was disabled", rows, 0)
}
