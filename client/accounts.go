package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"seckill"
)

const accountsPath = "/admin/v1/accounts"

// Account is somebody who may come in at the console with a name and a password.
type Account struct {
	Name      string       `json:"name"`
	Role      seckill.Role `json:"role"`
	Disabled  bool         `json:"disabled"`
	CreatedAt time.Time    `json:"created_at"`
	ChangedAt time.Time    `json:"changed_at"`
}

// AccountChange is what is to be changed; what is empty stays as it is.
type AccountChange struct {
	Password string       `json:"password,omitempty"`
	Role     seckill.Role `json:"role,omitempty"`
	Disabled *bool        `json:"disabled,omitempty"`
}

// Accounts lists them by name.
func (a *Admin) Accounts(ctx context.Context) ([]Account, error) {
	var list struct {
		Accounts []Account `json:"accounts"`
	}
	err := a.c.do(ctx, call{method: http.MethodGet, path: accountsPath}, &list)
	return list.Accounts, err
}

// AddAccount makes one. It is asked for once: after an unclear end, look whether it is there.
func (a *Admin) AddAccount(ctx context.Context, name, password string, role seckill.Role) (Account, error) {
	var got Account
	body := struct {
		Name     string       `json:"name"`
		Password string       `json:"password"`
		Role     seckill.Role `json:"role"`
	}{name, password, role}
	err := a.c.do(ctx, call{method: http.MethodPost, path: accountsPath, body: body, once: true}, &got)
	return got, err
}

// ChangeAccount changes what is given, and ends the account's sessions.
func (a *Admin) ChangeAccount(ctx context.Context, name string, c AccountChange) (Account, error) {
	var got Account
	err := a.c.do(ctx, call{method: http.MethodPut, path: accountsPath + "/" + url.PathEscape(name), body: c}, &got)
	return got, err
}

// RemoveAccount forgets an account and ends its sessions. It is asked for once.
func (a *Admin) RemoveAccount(ctx context.Context, name string) error {
	return a.c.do(ctx, call{method: http.MethodDelete, path: accountsPath + "/" + url.PathEscape(name), once: true}, nil)
}
