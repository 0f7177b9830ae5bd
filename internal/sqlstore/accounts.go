package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"seckill"
)

const (
	accountsMax = 1000
	// sessionsMax is how many browsers an account, or the token, can be logged in with; who comes
	// after that ends the oldest of its sessions.
	sessionsMax = 50
)

// Accounts lists them by name.
func (db *DB) Accounts(ctx context.Context) (list []seckill.Account, err error) {
	list, _, err = readAccounts(ctx, db.reader(), "ORDER BY name LIMIT ?", accountsMax)
	return list, db.fail("list the accounts", err)
}

// Credentials finds an account, and its password as it is stored; [seckill.ErrNotFound] if there is none.
func (db *DB) Credentials(ctx context.Context, name string) (a seckill.Account, password string, err error) {
	a, password, err = oneAccount(ctx, db.reader(), name, "")
	return a, password, db.fail("find an account", err)
}

func readAccounts(ctx context.Context, t tx, where string, args ...any) (list []seckill.Account, passwords []string, err error) {
	err = t.rows(ctx, func(scan func(...any) error) error {
		var a seckill.Account
		var password string
		var created, changed stamp
		err := scan(&a.Name, &a.Role, &a.Disabled, &created, &changed, &password)
		a.CreatedAt, a.ChangedAt = created.Time, changed.Time
		list, passwords = append(list, a), append(passwords, password)
		return err
	}, "SELECT name, role, disabled, create_time, change_time, password FROM seckill_account "+where, args...)
	return list, passwords, err
}

func oneAccount(ctx context.Context, t tx, name, lock string) (a seckill.Account, password string, err error) {
	list, passwords, err := readAccounts(ctx, t, "WHERE name = ?"+lock, name)
	// MySQL compares text as if spaces at its end were not there.
	if err == nil && (len(list) == 0 || list[0].Name != name) {
		err = seckill.ErrNotFound
	}
	if err != nil {
		return a, "", err
	}
	return list[0], passwords[0], nil
}

func accountObject(name string) string { return "account/" + name }

// AddAccount makes an account; password is a hash.
func (db *DB) AddAccount(ctx context.Context, a seckill.Account, password string, by seckill.Actor) (made seckill.Account, err error) {
	err = db.inTx(ctx, func(t tx) error {
		// The row that all who change who may come in lock: else two could pass the bound together.
		var one int64
		if err := t.row(ctx, "SELECT value FROM seckill_meta WHERE name = 'control_version'"+db.dialect.lockRow, nil, &one); err != nil {
			return err
		}
		var all, same int
		if err := t.row(ctx, "SELECT COUNT(*), COALESCE(SUM(CASE WHEN name = ? THEN 1 ELSE 0 END), 0) FROM seckill_account", []any{a.Name}, &all, &same); err != nil {
			return err
		}
		switch {
		case same > 0:
			return &seckill.Refusal{Reason: seckill.Conflict, Detail: "There is an account of this name."}
		case all >= accountsMax:
			return &seckill.Refusal{Reason: seckill.Conflict, Detail: fmt.Sprintf("There are %d accounts, which is the most; remove one first.", all)}
		}
		if _, err := t.exec(ctx, `INSERT INTO seckill_account (name, password, role, disabled, create_time, change_time)
			VALUES (?,?,?,?,{now},{now})`, a.Name, password, string(a.Role), flag(a.Disabled)); err != nil {
			return err
		}
		if made, _, err = oneAccount(ctx, t, a.Name, ""); err != nil {
			return err
		}
		return t.audit(ctx, by, "account.create", accountObject(a.Name), detail("role", a.Role))
	})
	return made, db.fail("add an account", err)
}

// ChangeAccount changes what is given, and ends the account's sessions; a password is a hash.
func (db *DB) ChangeAccount(ctx context.Context, name string, c seckill.AccountChange, by seckill.Actor) (changed seckill.Account, err error) {
	err = db.inTx(ctx, func(t tx) error {
		a, password, err := oneAccount(ctx, t, name, t.db.dialect.lockRow)
		if err != nil {
			return err
		}
		what := map[string]any{}
		if c.Password != nil {
			password, what["password"] = *c.Password, "changed"
		}
		if c.Role != nil {
			a.Role, what["role"] = *c.Role, *c.Role
		}
		if c.Disabled != nil {
			a.Disabled, what["disabled"] = *c.Disabled, *c.Disabled
		}
		if _, err := t.exec(ctx, "UPDATE seckill_account SET password = ?, role = ?, disabled = ?, change_time = {now} WHERE name = ?",
			password, string(a.Role), flag(a.Disabled), name); err != nil {
			return err
		}
		if err := t.endSessions(ctx, name); err != nil {
			return err
		}
		if changed, _, err = oneAccount(ctx, t, name, ""); err != nil {
			return err
		}
		return t.audit(ctx, by, "account.change", accountObject(name), asJSON(what))
	})
	return changed, db.fail("change an account", err)
}

// RemoveAccount forgets an account and ends its sessions.
func (db *DB) RemoveAccount(ctx context.Context, name string, by seckill.Actor) error {
	return db.fail("remove an account", db.inTx(ctx, func(t tx) error {
		if _, _, err := oneAccount(ctx, t, name, t.db.dialect.lockRow); err != nil {
			return err
		}
		if _, err := t.exec(ctx, "DELETE FROM seckill_account WHERE name = ?", name); err != nil {
			return err
		}
		if err := t.endSessions(ctx, name); err != nil {
			return err
		}
		return t.audit(ctx, by, "account.remove", accountObject(name), "{}")
	}))
}

func (t tx) endSessions(ctx context.Context, account string) error {
	_, err := t.exec(ctx, "DELETE FROM seckill_session WHERE account = ?", account)
	return err
}

// OpenSession notes that somebody has logged in: an account whose password was found to be the
// one that is stored as verified, or ("") whoever knows the admin token. It is refused if the
// account was changed meanwhile.
func (db *DB) OpenSession(ctx context.Context, id, account, verified string, lasts time.Duration, by seckill.Actor) (s seckill.Session, err error) {
	err = db.inTx(ctx, func(t tx) error {
		s = seckill.Session{Name: seckill.TokenName, Role: seckill.RoleAdmin}
		if account != "" {
			a, password, err := oneAccount(ctx, t, account, t.db.dialect.lockRow)
			switch {
			case errors.Is(err, seckill.ErrNotFound) || err == nil && (a.Disabled || password != verified):
				return seckill.Refuse(seckill.Unauthenticated)
			case err != nil:
				return err
			}
			s.Name, s.Role = a.Name, a.Role
		}
		var now stamp
		if err := t.row(ctx, "SELECT {now}", nil, &now); err != nil {
			return err
		}
		s.SeenAt, s.EndsAt = now.Time, now.Add(lasts)
		if _, err := t.exec(ctx, "DELETE FROM seckill_session WHERE end_time <= ?", now); err != nil {
			return err
		}
		if err := t.oldestSessionsEnd(ctx, account); err != nil {
			return err
		}
		if _, err := t.exec(ctx, "INSERT INTO seckill_session (id, account, create_time, seen_time, end_time) VALUES (?,?,?,?,?)",
			id, account, now, now, at(s.EndsAt)); err != nil {
			return err
		}
		return t.audit(ctx, by, "session.login", accountObject(s.Name), "{}")
	})
	return s, db.fail("open a session", err)
}

// oldestSessionsEnd makes room for one more session of an account.
func (t tx) oldestSessionsEnd(ctx context.Context, account string) error {
	var ids []string
	if err := t.rows(ctx, func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		ids = append(ids, id)
		return err
	}, "SELECT id FROM seckill_session WHERE account = ? ORDER BY create_time DESC, id", account); err != nil {
		return err
	}
	for len(ids) >= sessionsMax {
		last := len(ids) - 1
		if _, err := t.exec(ctx, "DELETE FROM seckill_session WHERE id = ?", ids[last]); err != nil {
			return err
		}
		ids = ids[:last]
	}
	return nil
}

// Session finds who has logged in, if that was not too long ago and it was used within idle;
// else [seckill.ErrNotFound]. It tells, too, how long ago it was used.
func (db *DB) Session(ctx context.Context, id string, idle time.Duration) (s seckill.Session, unused time.Duration, err error) {
	var now, seen, ends stamp
	var account string
	var role sql.NullString
	var disabled sql.NullBool
	err = db.reader().row(ctx, `SELECT {now}, s.account, s.seen_time, s.end_time, a.role, a.disabled
		FROM seckill_session s LEFT JOIN seckill_account a ON a.name = s.account WHERE s.id = ?`, []any{id}, &now, &account, &seen, &ends, &role, &disabled)
	unused = now.Sub(seen.Time)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return s, 0, seckill.ErrNotFound
	case err != nil:
		return s, 0, db.fail("find a session", err)
	case !now.Before(ends.Time), unused >= idle, account != "" && (!role.Valid || disabled.Bool):
		return s, 0, seckill.ErrNotFound
	}
	s = seckill.Session{Name: account, Role: seckill.Role(role.String), SeenAt: seen.Time, EndsAt: ends.Time}
	if account == "" {
		s.Name, s.Role = seckill.TokenName, seckill.RoleAdmin
	}
	return s, unused, nil
}

// TouchSession notes that a session is in use.
func (db *DB) TouchSession(ctx context.Context, id string) error {
	return db.fail("note that a session is in use", db.inTx(ctx, func(t tx) error {
		_, err := t.exec(ctx, "UPDATE seckill_session SET seen_time = {now} WHERE id = ?", id)
		return err
	}))
}

// CloseSession ends a session; that it had ended already is no error.
func (db *DB) CloseSession(ctx context.Context, id string, by seckill.Actor) error {
	return db.fail("close a session", db.inTx(ctx, func(t tx) error {
		ended, err := t.exec(ctx, "DELETE FROM seckill_session WHERE id = ?", id)
		if err != nil || ended == 0 {
			return err
		}
		return t.audit(ctx, by, "session.logout", accountObject(by.Who), "{}")
	}))
}
