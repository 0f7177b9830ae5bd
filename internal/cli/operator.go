package cli

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"seckill/client"
	"seckill/internal/config"
)

const (
	publicDefault = "http://127.0.0.1:8080"
	adminDefault  = "http://127.0.0.1:8081"
)

// operator is what the commands that talk to the admin API have in common.
type operator struct {
	p             *program
	server, token string
	reason        string
	json          bool
	body          []byte // Of the last answer, as it came.
}

// operatorFlags adds the flags, and --reason where the command changes something.
func (p *program) operatorFlags(cmd *cobra.Command, changes bool) *operator {
	o := &operator{p: p}
	f := cmd.Flags()
	f.SortFlags = false
	if changes {
		f.StringVar(&o.reason, "reason", "", "why, for the audit log")
	}
	f.BoolVar(&o.json, "json", false, "print what the API answered, exactly")
	f.StringVar(&o.server, "server", "", "address of the admin listener (default SECKILL_SERVER, or "+adminDefault+")")
	f.StringVar(&o.token, "admin-token", "", "admin token, or @FILE to read it (default SECKILL_ADMIN_TOKEN, which the list of processes does not show)")
	return o
}

// first returns the first that is not empty.
func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// readToken takes the token from the flag or the environment; it is empty if neither has one.
func (p *program) readToken(flag string) (config.Secret, error) {
	name, value := "--admin-token", flag
	if value == "" {
		name, value = "SECKILL_ADMIN_TOKEN", p.variable("SECKILL_ADMIN_TOKEN")
	}
	if value == "" {
		return config.Secret{}, nil
	}
	token, err := config.ParseToken(value)
	if err != nil {
		return config.Secret{}, fmt.Errorf("%s: %w", name, err)
	}
	return token, nil
}

// connect makes the client.
func (o *operator) connect() (*client.Admin, error) {
	token, err := o.p.readToken(o.token)
	if err != nil {
		return nil, err
	}
	if token.Empty() {
		return nil, &mistake{"--admin-token", "is required", "the server's admin token, @FILE, or SECKILL_ADMIN_TOKEN"}
	}
	header := http.Header{}
	if o.reason != "" {
		header.Set("X-Reason", o.reason)
	}
	for _, r := range o.reason {
		if r < ' ' || r == 0x7f {
			return nil, &mistake{"--reason", "has control characters", "one line of text"}
		}
	}
	name, server := "--server", o.server
	if server == "" {
		name, server = "SECKILL_SERVER", o.p.variable("SECKILL_SERVER")
	}
	a, err := client.NewAdmin(client.Options{
		Server: first(server, adminDefault), Token: token.Reveal(), Header: header,
		OnAnswer: func(body []byte) { o.body = append(o.body[:0], body...) },
	})
	if err != nil {
		return nil, &mistake{name, "cannot be used", "http://host:port or https://host"}
	}
	return a, nil
}

// answer prints the body as it came, or else what show prints, once a call went well.
func (o *operator) answer(err error, show func()) error {
	if err != nil {
		return told(err)
	}
	if !o.json {
		show()
		return nil
	}
	body := o.body
	if n := len(body); n == 0 || body[n-1] != '\n' {
		body = append(body, '\n')
	}
	_, err = o.p.stdout.Write(body)
	return fail(err)
}

// told adds to some errors what to do about them.
func told(err error) error {
	var p *client.Problem
	var malformed *client.MalformedError
	switch {
	case errors.As(err, &p) && p.Reason == "unauthenticated":
		return fail(fmt.Errorf("%w; is the admin token the one that the server was started with?", err))
	case errors.As(err, &p) && p.Reason == "", errors.As(err, &malformed):
		return fail(fmt.Errorf("%w; is it the admin listener of seckill that answers there?", err))
	}
	return fail(err)
}

// number reads an id from the command line.
func number(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, &mistake{"ID", fmt.Sprintf("%q is not an id", text), "a whole number from 1"}
	}
	return n, nil
}
