package admin

import (
	"context"
	"errors"
	"sync"

	"seckill"
	"seckill/internal/account"
)

const rightPassword = "correct horse battery"

// people are an account for each role, named after it, all with the same password. Sessions are
// named after who opened them.
type people struct {
	*account.Desk // For the checks of fields alone.

	n        *neighbours
	mu       sync.Mutex
	sessions map[string]seckill.Session
}

func newPeople(n *neighbours) *people {
	return &people{Desk: &account.Desk{}, n: n, sessions: map[string]seckill.Session{}}
}

func (p *people) open(name string, role seckill.Role, from string) (string, seckill.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := seckill.Session{Name: name, Role: role, CSRF: "csrf-of-" + name}
	p.sessions["s-"+name] = s
	return "s-" + name, s, p.n.note(seckill.Actor{Who: name, From: from}, "login")
}

func (p *people) Login(_ context.Context, name, password, from string) (string, seckill.Session, error) {
	if role := seckill.Role(name); role.Valid() && password == rightPassword {
		return p.open(name, role, from)
	}
	return "", seckill.Session{}, errors.Join(p.n.note(seckill.Actor{Who: name, From: from}, "refused"), seckill.Refuse(seckill.Unauthenticated))
}

func (p *people) LoginByToken(_ context.Context, from string) (string, seckill.Session, error) {
	return p.open(seckill.TokenName, seckill.RoleAdmin, from)
}

func (p *people) FailedToken(_ context.Context, from string) error {
	return errors.Join(p.n.note(seckill.Actor{Who: seckill.TokenName, From: from}, "refused"), seckill.Refuse(seckill.Unauthenticated))
}

func (p *people) Session(_ context.Context, id string) (seckill.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.sessions[id]
	if !ok {
		return s, seckill.ErrNotFound
	}
	return s, p.n.err
}

func (p *people) Logout(_ context.Context, id string, by seckill.Actor) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, id)
	return p.n.note(by, "logout")
}

func (p *people) Accounts(context.Context) ([]seckill.Account, error) {
	return []seckill.Account{{Name: "ann", Role: seckill.RoleViewer, Disabled: true}}, p.n.err
}

func (p *people) Add(_ context.Context, name, password string, role seckill.Role, by seckill.Actor) (seckill.Account, error) {
	return seckill.Account{Name: name, Role: role}, p.n.note(by, "add %s %s as %s", name, password, role)
}

func (p *people) Change(_ context.Context, name string, c seckill.AccountChange, by seckill.Actor) (seckill.Account, error) {
	if name != "ann" {
		return seckill.Account{}, seckill.ErrNotFound
	}
	return seckill.Account{Name: name}, p.n.note(by, "change %s %v %v %v", name, c.Password != nil, c.Role != nil, c.Disabled != nil)
}

func (p *people) Remove(_ context.Context, name string, by seckill.Actor) error {
	if name != "ann" {
		return seckill.ErrNotFound
	}
	return p.n.note(by, "remove %s", name)
}

// onceFeed gives each watcher one event.
type onceFeed struct {
	mu       sync.Mutex
	watching int
	full     bool
	more     chan string // What comes after it; nothing if nil.
}

func (f *onceFeed) Watch() (next func(context.Context) (int64, []byte, error), stop func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		return nil, nil, &seckill.Refusal{Reason: seckill.Busy}
	}
	f.watching++
	var id int64
	next = func(ctx context.Context) (int64, []byte, error) {
		id++
		if id == 1 {
			return id, []byte(`{"node":"n1"}`), nil
		}
		if f.more == nil {
			return 0, nil, context.Canceled
		}
		select {
		case text := <-f.more:
			return id, []byte(text), nil
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		}
	}
	return next, func() { f.mu.Lock(); defer f.mu.Unlock(); f.watching-- }, nil
}

func (f *onceFeed) watched() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watching
}
