// Package account knows who may come in at the operators' door: accounts with passwords, and
// the sessions of who has logged in, which all nodes share. It decides nothing about what a
// role may do, and speaks no HTTP: internal/admin does both, and is its only user.
package account

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"seckill"
)

// Bounds of accounts.
const (
	nameBytesMax     = 64
	passwordRunesMin = 12
	passwordBytesMax = 1024
)

// How long a session lasts.
const (
	sessionLasts = 12 * time.Hour
	sessionIdle  = time.Hour // Unused for so long, it ends.
	touchEvery   = time.Minute
)

// store keeps accounts and sessions. Passwords and ids of sessions come to it as hashes only.
type store interface {
	Accounts(ctx context.Context) ([]seckill.Account, error)
	Credentials(ctx context.Context, name string) (a seckill.Account, password string, err error)
	AddAccount(ctx context.Context, a seckill.Account, password string, by seckill.Actor) (seckill.Account, error)
	ChangeAccount(ctx context.Context, name string, c seckill.AccountChange, by seckill.Actor) (seckill.Account, error)
	RemoveAccount(ctx context.Context, name string, by seckill.Actor) error
	OpenSession(ctx context.Context, id, account, verified string, lasts time.Duration, by seckill.Actor) (seckill.Session, error)
	Session(ctx context.Context, id string, idle time.Duration) (s seckill.Session, unused time.Duration, err error)
	TouchSession(ctx context.Context, id string) error
	CloseSession(ctx context.Context, id string, by seckill.Actor) error
	Note(ctx context.Context, by seckill.Actor, action, object, detail string) error
}

// Options of a [Desk].
type Options struct {
	Store store        // Required.
	Token string       // The admin token: sessions that it opened end when it is another. Required.
	Log   *slog.Logger // Required.
}

// Desk lets people in. It may be used concurrently.
type Desk struct {
	o      Options
	hasher *hasher
	nobody string // What is compared when there is no such account, so that it takes as long.

	tries *tries

	mu    sync.Mutex
	known map[string]knowledge // By the hash of a session's id.
}

// New makes a desk.
func New(o Options) (*Desk, error) {
	if o.Store == nil || o.Token == "" || o.Log == nil {
		return nil, errors.New("account: store, token and log are required")
	}
	d := &Desk{o: o, hasher: newHasher(), tries: newTries(), known: map[string]knowledge{}}
	var err error
	d.nobody, err = d.hasher.hash(context.Background(), rand.Text())
	return d, err
}

// Accounts lists them.
func (d *Desk) Accounts(ctx context.Context) ([]seckill.Account, error) {
	return d.o.Store.Accounts(ctx)
}

// Check says what is wrong with a new account, by the names of the API's fields.
func (d *Desk) Check(name, password string, role seckill.Role) []seckill.FieldError {
	var wrong []seckill.FieldError
	switch {
	case name == "":
		wrong = append(wrong, seckill.FieldError{Field: "name", Rule: seckill.RuleRequired})
	case len(name) > nameBytesMax:
		wrong = append(wrong, seckill.FieldError{Field: "name", Rule: seckill.RuleLength, Arg: fmt.Sprint(nameBytesMax)})
	case !validName(name):
		wrong = append(wrong, seckill.FieldError{Field: "name", Rule: seckill.RuleFormat, Arg: "small letters, digits and . _ - @, a letter first"})
	case slices.Contains(reserved(), name):
		wrong = append(wrong, seckill.FieldError{Field: "name", Rule: seckill.RuleFormat, Arg: "a name that the program does not use itself"})
	}
	return append(append(wrong, d.CheckPassword(password)...), d.CheckRole(role)...)
}

// CheckPassword is Check for a new password.
func (d *Desk) CheckPassword(password string) []seckill.FieldError {
	wrong := func(rule seckill.Rule, arg string) []seckill.FieldError {
		return []seckill.FieldError{{Field: "password", Rule: rule, Arg: arg}}
	}
	switch {
	case password == "":
		return wrong(seckill.RuleRequired, "")
	case len(password) > passwordBytesMax:
		return wrong(seckill.RuleLength, fmt.Sprint(passwordBytesMax))
	case !utf8.ValidString(password) || strings.ContainsFunc(password, unicode.IsControl):
		return wrong(seckill.RuleFormat, "text without control characters")
	case utf8.RuneCountInString(password) < passwordRunesMin:
		return wrong(seckill.RuleFormat, fmt.Sprintf("at least %d characters long", passwordRunesMin))
	}
	return nil
}

// CheckRole is Check for a new role.
func (d *Desk) CheckRole(role seckill.Role) []seckill.FieldError {
	switch {
	case role == "":
		return []seckill.FieldError{{Field: "role", Rule: seckill.RuleRequired}}
	case !role.Valid():
		return []seckill.FieldError{{Field: "role", Rule: seckill.RuleOneOf, Arg: "viewer, operator, admin"}}
	}
	return nil
}

// reserved are names that mean something else in the audit log.
func reserved() []string {
	return []string{seckill.TokenName, unknown, "token", "system", "keeper", "reconcile", "webhooks", "guard"}
}

func validName(name string) bool {
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && !strings.ContainsRune("._-@", rune(c))) {
			return false
		}
	}
	return name != "" && len(name) <= nameBytesMax
}

// Add makes an account. What Check says no to must not come here.
func (d *Desk) Add(ctx context.Context, name, password string, role seckill.Role, by seckill.Actor) (seckill.Account, error) {
	hash, err := d.hasher.hash(ctx, password)
	if err != nil {
		return seckill.Account{}, err
	}
	return d.o.Store.AddAccount(ctx, seckill.Account{Name: name, Role: role}, hash, by)
}

// Change changes an account and ends its sessions.
func (d *Desk) Change(ctx context.Context, name string, c seckill.AccountChange, by seckill.Actor) (seckill.Account, error) {
	if !validName(name) {
		return seckill.Account{}, seckill.ErrNotFound
	}
	if c.Password != nil {
		hash, err := d.hasher.hash(ctx, *c.Password)
		if err != nil {
			return seckill.Account{}, err
		}
		c.Password = &hash
	}
	a, err := d.o.Store.ChangeAccount(ctx, name, c, by)
	d.forget(name)
	return a, err
}

// Remove forgets an account and ends its sessions.
func (d *Desk) Remove(ctx context.Context, name string, by seckill.Actor) error {
	if !validName(name) {
		return seckill.ErrNotFound
	}
	err := d.o.Store.RemoveAccount(ctx, name, by)
	d.forget(name)
	return err
}

// unknown is what the audit log calls who gives a name that is no account's: it may be a
// password, typed into the wrong field.
const unknown = "unknown"

// Login checks a name and a password and opens a session; id is what its owner has to show. It takes
// as long whether there is such an account or not.
func (d *Desk) Login(ctx context.Context, name, password, from string) (id string, s seckill.Session, err error) {
	name = strings.ToLower(strings.TrimSpace(name))
	now := time.Now()
	if wait := d.tries.try(name, from, now); wait > 0 {
		return "", s, &seckill.Refusal{Reason: seckill.RateLimited, RetryAfter: wait}
	}
	who, stored := unknown, d.nobody
	if validName(name) {
		a, hash, err := d.o.Store.Credentials(ctx, name)
		switch {
		case err == nil && a.Disabled:
			who = name
		case err == nil:
			who, stored = name, hash
		case !errors.Is(err, seckill.ErrNotFound):
			return "", s, err
		}
	}
	ok, err := d.hasher.verify(ctx, password[:min(len(password), passwordBytesMax)], stored)
	if err != nil {
		return "", s, err
	}
	if ok && len(password) <= passwordBytesMax && stored != d.nobody {
		id, s, err = d.open(ctx, accountSession, name, stored, seckill.Actor{Who: name, From: from})
		if err == nil {
			d.tries.forgive(name, from, now)
		}
		return id, s, err
	}
	return "", s, d.failed(ctx, seckill.Actor{Who: who, From: from})
}

// LoginByToken opens a session for somebody who was found to know the admin token.
func (d *Desk) LoginByToken(ctx context.Context, from string) (id string, s seckill.Session, err error) {
	return d.open(ctx, tokenSession, "", "", seckill.Actor{Who: seckill.TokenName, From: from})
}

// FailedToken notes that somebody gave a wrong token, and refuses.
func (d *Desk) FailedToken(ctx context.Context, from string) error {
	return d.failed(ctx, seckill.Actor{Who: seckill.TokenName, From: from})
}

// failed refuses. A log that cannot be written makes no difference to who is refused.
func (d *Desk) failed(ctx context.Context, by seckill.Actor) error {
	if err := d.o.Store.Note(ctx, by, "session.refused", "account/"+by.Who, "{}"); err != nil {
		d.o.Log.Error("account: a refused login is not in the audit log", "who", by.Who, "from", by.From, "error", err)
	}
	return seckill.Refuse(seckill.Unauthenticated)
}

// The ids of sessions tell by their first letter who opened them.
const (
	accountSession = "a"
	tokenSession   = "t"
)

func (d *Desk) open(ctx context.Context, kind, name, verified string, by seckill.Actor) (id string, s seckill.Session, err error) {
	var random [32]byte
	rand.Read(random[:])
	id = kind + base64.RawURLEncoding.EncodeToString(random[:])
	s, err = d.o.Store.OpenSession(ctx, d.key(id), name, verified, sessionLasts, by)
	if err != nil {
		return "", s, err
	}
	s.CSRF = csrf(id)
	return id, s, nil
}

// key is what is stored of a session's id. That of one that the token opened cannot be made
// with another token.
func (d *Desk) key(id string) string {
	if !strings.HasPrefix(id, tokenSession) {
		sum := sha256.Sum256([]byte(id))
		return hex.EncodeToString(sum[:])
	}
	mac := hmac.New(sha256.New, []byte(d.o.Token))
	mac.Write([]byte(id))
	return hex.EncodeToString(mac.Sum(nil))
}

// csrf is what a page has to know: it follows from the session's id, which the page cannot read.
func csrf(id string) string {
	mac := hmac.New(sha256.New, []byte(id))
	mac.Write([]byte("csrf"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
