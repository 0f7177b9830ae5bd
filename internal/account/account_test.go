package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
)

// memory is a store in memory; it fails with err if set.
type memory struct {
	store // What no test asks for.

	mu       sync.Mutex
	accounts map[string]seckill.Account
	hashes   map[string]string
	sessions map[string]seckill.Session
	notes    []string
	asked    int
	touches  int
	err      error
	log      strings.Builder
}

func (m *memory) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.Write(p)
}

func (m *memory) Credentials(_ context.Context, name string) (seckill.Account, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.accounts[name]
	if !ok && m.err == nil {
		return a, "", seckill.ErrNotFound
	}
	return a, m.hashes[name], m.err
}

func (m *memory) AddAccount(_ context.Context, a seckill.Account, password string, _ seckill.Actor) (seckill.Account, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.accounts[a.Name], m.hashes[a.Name] = a, password
	return a, m.err
}

func (m *memory) ChangeAccount(_ context.Context, name string, c seckill.AccountChange, _ seckill.Actor) (seckill.Account, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.accounts[name]
	if c.Disabled != nil {
		a.Disabled = *c.Disabled
	}
	if c.Password != nil {
		m.hashes[name] = *c.Password
	}
	m.accounts[name] = a
	for id, s := range m.sessions {
		if s.Name == name {
			delete(m.sessions, id)
		}
	}
	return a, m.err
}

func (m *memory) OpenSession(_ context.Context, id, account, _ string, lasts time.Duration, by seckill.Actor) (seckill.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := seckill.Session{Name: seckill.TokenName, Role: seckill.RoleAdmin, SeenAt: time.Now(), EndsAt: time.Now().Add(lasts)}
	if account != "" {
		s.Name, s.Role = account, m.accounts[account].Role
	}
	m.sessions[id] = s
	m.notes = append(m.notes, "login "+by.Who+" from "+by.From)
	return s, m.err
}

func (m *memory) Session(_ context.Context, id string, idle time.Duration) (s seckill.Session, unused time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	s, ok := m.sessions[id]
	unused = time.Since(s.SeenAt)
	if m.err == nil && (!ok || unused >= idle || !time.Now().Before(s.EndsAt)) {
		return s, 0, seckill.ErrNotFound
	}
	return s, unused, m.err
}

func (m *memory) TouchSession(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.touches++
	s := m.sessions[id]
	s.SeenAt = time.Now()
	if m.err == nil {
		m.sessions[id] = s
	}
	return m.err
}

func (m *memory) CloseSession(_ context.Context, id string, by seckill.Actor) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, id)
	m.notes = append(m.notes, "logout "+by.Who)
	return m.err
}

func (m *memory) Note(_ context.Context, by seckill.Actor, action, object, detail string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes = append(m.notes, strings.Join([]string{action, by.Who, by.From, object, detail}, " "))
	return m.err
}

func (m *memory) noted() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	notes := m.notes
	m.notes = nil
	return notes
}

const (
	token    = "the-token-of-the-test"
	password = "correct horse battery"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newDesk makes a desk with one account, ann.
func newDesk(t *testing.T) (*Desk, *memory) {
	t.Helper()
	m := &memory{accounts: map[string]seckill.Account{}, hashes: map[string]string{}, sessions: map[string]seckill.Session{}}
	d, err := New(Options{Store: m, Token: token, Log: slog.New(slog.NewTextHandler(m, nil))})
	must(t, err)
	_, err = d.Add(t.Context(), "ann", password, seckill.RoleOperator, seckill.Actor{})
	must(t, err)
	return d, m
}

func reasonOf(err error) seckill.Reason {
	if refusal, ok := errors.AsType[*seckill.Refusal](err); ok {
		return refusal.Reason
	}
	return seckill.NoReason
}

// Whoever knows the password comes in, and nobody else, and the audit log says who tried and not what.
func TestLogin(t *testing.T) {
	d, m := newDesk(t)
	id, s, err := d.Login(t.Context(), " Ann ", password, "192.0.2.1")
	must(t, err)
	if s.Name != "ann" || s.Role != seckill.RoleOperator || s.CSRF == "" || strings.Contains(id, s.CSRF) {
		t.Fatalf("session: %+v", s)
	}
	got, err := d.Session(t.Context(), id)
	if err != nil || got != s {
		t.Fatalf("shown again: %+v, %v; want %+v", got, err, s)
	}
	if got, want := m.noted(), []string{"login ann from 192.0.2.1"}; !slices.Equal(got, want) {
		t.Errorf("noted %q, want %q", got, want)
	}
	for stored := range m.sessions {
		if strings.Contains(stored, id) || strings.Contains(id, stored) || len(stored) != 64 {
			t.Errorf("stored as %q", stored)
		}
	}
	yes := true
	for _, c := range []struct{ name, given, who string }{
		{"ann", password + "x", "ann"}, {"ann", "", "ann"}, {"ann", password[:len(password)-1], "ann"}, {"ann", strings.Repeat("x", 2000), "ann"},
		{"eve", password, "unknown"}, {"", password, "unknown"}, {"my secret password", "ann", "unknown"}, {seckill.TokenName, token, "unknown"},
		{"disabled", "", ""}, {"ann", password, "ann"},
	} {
		if c.name == "disabled" {
			_, err := d.Change(t.Context(), "ann", seckill.AccountChange{Disabled: &yes}, seckill.Actor{})
			must(t, err)
			continue
		}
		id, _, err := d.Login(t.Context(), c.name, c.given, "192.0.2.2")
		want := []string{"session.refused " + c.who + " 192.0.2.2 account/" + c.who + " {}"}
		if got := m.noted(); id != "" || reasonOf(err) != seckill.Unauthenticated || !slices.Equal(got, want) {
			t.Errorf("%q, %.30q: id %q, %v, noted %q; want unauthenticated, %q", c.name, c.given, id, err, got, want)
		}
	}
	m.err = errors.New("away")
	if _, _, err := d.Login(t.Context(), "bob", password, ""); !errors.Is(err, m.err) {
		t.Errorf("without the database: %v", err)
	}
	if log := m.log.String(); strings.Contains(log, password) {
		t.Errorf("log: %s", log)
	}
}

// What makes a login that fails cheap to tell from another does not depend on whether there is such an account:
// in each case one password is hashed, with the same settings.
func TestTheWorkIsTheSame(t *testing.T) {
	d, m := newDesk(t)
	known, err := parse(m.hashes["ann"])
	must(t, err)
	nobody, err := parse(d.nobody)
	must(t, err)
	if known.memory != nobody.memory || known.passes != nobody.passes || known.lanes != nobody.lanes || len(known.hash) != len(nobody.hash) {
		t.Errorf("settings: %+v and %+v", known, nobody)
	}
	if slices.Equal(known.salt, nobody.salt) {
		t.Error("one salt for two")
	}
	// While every place is taken, neither gets its answer.
	for range hashesMax {
		d.hasher.slots <- struct{}{}
	}
	for _, name := range []string{"ann", "eve", ""} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := d.Login(ctx, name, password, ""); !errors.Is(err, context.Canceled) {
			t.Errorf("%q was answered without work: %v", name, err)
		}
	}
}

// Few passwords are hashed at a time, few wait for it, and the rest is told to come again.
func TestHashesAreBounded(t *testing.T) {
	h := newHasher()
	for range hashesMax {
		h.slots <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	for range waitersMax + 5 {
		go func() { _, err := h.hash(ctx, password); errs <- err }()
	}
	for range 5 {
		if err := <-errs; reasonOf(err) != seckill.Busy {
			t.Errorf("got %v, want busy", err)
		}
	}
	cancel()
	for range waitersMax {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it waited", err)
		}
	}
	if got := h.waiting.Load(); got != 0 {
		t.Errorf("%d wait for ever", got)
	}
	for range hashesMax {
		<-h.slots
	}
	if _, err := h.hash(t.Context(), password); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A password that is stored in a form that is not ours, or asks for more than there is, is no password.
func TestStoredPasswords(t *testing.T) {
	h := newHasher()
	good, err := h.hash(t.Context(), password)
	must(t, err)
	if ok, err := h.verify(t.Context(), password, good); !ok || err != nil || !strings.HasPrefix(good, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Fatalf("%s: %v, %v", good, ok, err)
	}
	if ok, err := h.verify(t.Context(), password+" ", good); ok || err != nil {
		t.Errorf("another password: %v, %v", ok, err)
	}
	for _, bad := range []string{
		"", "x", password, strings.Replace(good, "argon2id", "argon2i", 1), strings.Replace(good, "v=19", "v=16", 1),
		strings.Replace(good, "m=19456", "m=4194304", 1), strings.Replace(good, "m=19456", "m=1", 1), strings.Replace(good, "t=2", "t=0", 1), strings.Replace(good, "t=2", "t=1000000", 1),
		strings.Replace(good, "p=1", "p=0", 1), strings.Replace(good, "p=1", "p=200", 1), strings.Replace(good, "p=1", "p=-1", 1), good + "$", good[:len(good)-30], good[:strings.LastIndex(good, "$")+1],
	} {
		if ok, err := h.verify(t.Context(), password, bad); ok || err == nil || strings.Contains(err.Error(), "argon2") {
			t.Errorf("%q: %v, %v", bad, ok, err)
		}
	}
}

// A session that is used lives for twelve hours, one that is not for one; each is asked for seldom, and ends at
// once on the node that ends it.
func TestSessionsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := newDesk(t)
		login := func() string {
			id, _, err := d.Login(t.Context(), "ann", password, "")
			must(t, err)
			return id
		}
		lives := func(id string) bool {
			_, err := d.Session(t.Context(), id)
			if err != nil && !errors.Is(err, seckill.ErrNotFound) {
				t.Fatal(err)
			}
			return err == nil
		}
		used, unused := login(), login()
		start := time.Now()
		for range 100 {
			lives(used)
		}
		if m.asked != 1 || m.touches != 0 {
			t.Errorf("100 requests at once: asked %d times, touched %d times; want 1, 0", m.asked, m.touches)
		}
		for time.Since(start) < 11*time.Hour+59*time.Minute {
			if !lives(used) {
				t.Fatalf("ended after %v", time.Since(start))
			}
			<-time.After(30 * time.Second)
			if time.Since(start) == time.Hour && lives(unused) {
				t.Error("an hour unused, and it lives")
			}
		}
		if m.touches > 13*60 {
			t.Errorf("touched %d times in 12 h", m.touches)
		}
		<-time.After(2 * time.Minute)
		if lives(used) {
			t.Error("it lives after 12 hours")
		}

		id := login()
		if !lives(id) {
			t.Fatal("not here")
		}
		must(t, d.Logout(t.Context(), id, seckill.Actor{Who: "ann"}))
		if lives(id) {
			t.Error("it lives after the logout")
		}
		id = login()
		if !lives(id) {
			t.Fatal("not here")
		}
		yes := true
		_, err := d.Change(t.Context(), "ann", seckill.AccountChange{Disabled: &yes}, seckill.Actor{})
		must(t, err)
		if lives(id) {
			t.Error("it lives though disabled")
		}
		for _, none := range []string{"", "a", "t", "x", strings.Repeat("a", 65), strings.Repeat("a", 1<<20)} {
			if lives(none) {
				t.Errorf("%.20q is a session", none)
			}
		}
	})
}

// While the database does not answer, who was seen lately is still known, and for a while only; others are not let in.
func TestSessionsOutliveAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, m := newDesk(t)
		id, _, err := d.LoginByToken(t.Context(), "192.0.2.1")
		must(t, err)
		other, _, err := d.LoginByToken(t.Context(), "192.0.2.1")
		must(t, err)
		if s, err := d.Session(t.Context(), id); err != nil || s.Name != seckill.TokenName || s.Role != seckill.RoleAdmin {
			t.Fatalf("%+v, %v", s, err)
		}
		m.err = errors.New("away")
		<-time.After(2 * time.Minute)
		if _, err := d.Session(t.Context(), id); err != nil {
			t.Errorf("two minutes without the database: %v", err)
		}
		if _, err := d.Session(t.Context(), other); !errors.Is(err, m.err) {
			t.Errorf("who was not seen: %v", err)
		}
		<-time.After(4 * time.Minute)
		if _, err := d.Session(t.Context(), id); !errors.Is(err, m.err) {
			t.Errorf("six minutes: %v", err)
		}
	})
}

// With another token, whoever came in with the old one is out; accounts are not.
func TestAnotherTokenEndsItsSessions(t *testing.T) {
	d, m := newDesk(t)
	byToken, _, err := d.LoginByToken(t.Context(), "")
	must(t, err)
	byName, _, err := d.Login(t.Context(), "ann", password, "")
	must(t, err)
	again, err := New(Options{Store: m, Token: "another", Log: slog.Default()})
	must(t, err)
	if _, err := again.Session(t.Context(), byToken); !errors.Is(err, seckill.ErrNotFound) {
		t.Errorf("by the old token: %v", err)
	}
	if s, err := again.Session(t.Context(), byName); err != nil || s.Name != "ann" {
		t.Errorf("by name: %+v, %v", s, err)
	}
	for range 3 * knownMax {
		d.remember(fmt.Sprint(len(d.known)), knowledge{})
	}
	if got := len(d.known); got > knownMax {
		t.Errorf("%d sessions are remembered", got)
	}
}

// Names and passwords have bounds, and no name that means something else in the audit log.
func TestCheck(t *testing.T) {
	d, _ := newDesk(t)
	if wrong := d.Check("ann.lee-2@example.com", "twelve chars", seckill.RoleViewer); len(wrong) > 0 {
		t.Errorf("right: %v", wrong)
	}
	if wrong := d.Check("zoe", "十二个字的密码也是可以的", seckill.RoleAdmin); len(wrong) > 0 {
		t.Errorf("twelve characters of Chinese: %v", wrong)
	}
	for _, c := range []struct{ name, password, role, field string }{
		{"", password, "viewer", "name"}, {"Ann", password, "viewer", "name"}, {"a b", password, "viewer", "name"}, {"1a", password, "viewer", "name"},
		{"å", password, "viewer", "name"}, {strings.Repeat("a", 65), password, "viewer", "name"}, {"a/b", password, "viewer", "name"},
		{"admin-token", password, "viewer", "name"}, {"system", password, "viewer", "name"}, {"unknown", password, "viewer", "name"},
		{"a", "", "viewer", "password"}, {"a", "eleven char", "viewer", "password"}, {"a", strings.Repeat("x", 1025), "viewer", "password"}, {"a", password + "\x00", "viewer", "password"},
		{"a", password, "", "role"}, {"a", password, "root", "role"}, {"a", password, "Admin", "role"},
	} {
		wrong := d.Check(c.name, c.password, seckill.Role(c.role))
		if len(wrong) != 1 || wrong[0].Field != c.field {
			t.Errorf("%.20q %.20q %q: %v, want %s", c.name, c.password, c.role, wrong, c.field)
		}
	}
}
