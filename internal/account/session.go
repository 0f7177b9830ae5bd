package account

import (
	"context"
	"errors"
	"maps"
	"time"

	"seckill"
)

const (
	// knownFor is how long a node goes by what it knows of a session: so long it may live on
	// after another node has ended it.
	knownFor = 2 * time.Second
	// outage is how long it does so while the database does not answer: switches that stand in the
	// database are of no use then, but what is going on is to be seen.
	outage = 5 * time.Minute
	// askFor bounds how long the database is waited for.
	askFor = 2 * time.Second
	// knownMax bounds what is known; more, and all is asked for again.
	knownMax = 1000
	// idBytesMax bounds what may be an id.
	idBytesMax = 64
)

// knowledge is what the database said of a session, and when.
type knowledge struct {
	session seckill.Session
	at      time.Time
	touched time.Time
}

// Session finds who shows an id; [seckill.ErrNotFound] if that is no session, or none any more.
func (d *Desk) Session(ctx context.Context, id string) (seckill.Session, error) {
	if len(id) > idBytesMax || len(id) < 2 {
		return seckill.Session{}, seckill.ErrNotFound
	}
	key, now := d.key(id), time.Now()
	d.mu.Lock()
	k, ok := d.known[key]
	d.mu.Unlock()
	if !ok || now.Sub(k.at) >= knownFor {
		s, unused, err := d.ask(ctx, key)
		switch {
		case err == nil:
			k = knowledge{session: s, at: now, touched: now.Add(-unused)}
			d.remember(key, k)
		case errors.Is(err, seckill.ErrNotFound):
			d.mu.Lock()
			delete(d.known, key)
			d.mu.Unlock()
			return seckill.Session{}, err
		case !ok || now.Sub(k.at) >= outage || !now.Before(k.session.EndsAt):
			return seckill.Session{}, err
		}
	}
	d.touch(ctx, key, k, now)
	k.session.CSRF = csrf(id)
	return k.session, nil
}

func (d *Desk) ask(ctx context.Context, key string) (seckill.Session, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	return d.o.Store.Session(ctx, key, sessionIdle)
}

func (d *Desk) remember(key string, k knowledge) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= knownMax {
		clear(d.known)
	}
	d.known[key] = k
}

// touch keeps a session from ending while it is used. It is no reason to refuse if that
// cannot be written: the session ends then as if it was not used.
func (d *Desk) touch(ctx context.Context, key string, k knowledge, now time.Time) {
	if now.Sub(k.touched) < touchEvery {
		return
	}
	k.touched = now
	d.remember(key, k)
	if err := d.o.Store.TouchSession(ctx, key); err != nil {
		d.o.Log.Warn("account: it cannot be noted that a session is in use", "who", k.session.Name, "error", err)
	}
}

// Logout ends a session.
func (d *Desk) Logout(ctx context.Context, id string, by seckill.Actor) error {
	key := d.key(id)
	err := d.o.Store.CloseSession(ctx, key, by)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, key)
	return err
}

// forget makes this node ask again for the sessions of an account.
func (d *Desk) forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.known, func(_ string, k knowledge) bool { return k.session.Name == name })
}
