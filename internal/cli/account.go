package cli

import (
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seckill"
	"seckill/client"
)

func (p *program) account() *cobra.Command {
	cmd := group("account", "Say who may come in at the console, besides those who know the admin token")
	cmd.AddCommand(p.accountList(), p.accountAdd(), p.accountPassword(), p.accountRemove())
	return cmd
}

func (p *program) accountList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the accounts", Args: exactly()}
	o := p.operatorFlags(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a, err := o.connect()
		if err != nil {
			return err
		}
		list, err := a.Accounts(cmd.Context())
		return o.answer(err, func() { p.listAccounts(list) })
	}
	return cmd
}

func (p *program) listAccounts(list []client.Account) {
	if len(list) == 0 {
		fmt.Fprintln(p.stdout, "There are no accounts: only the admin token opens the console.")
		return
	}
	rows := [][]string{{"NAME", "ROLE", "DISABLED", "CREATED", "CHANGED"}}
	for _, a := range list {
		rows = append(rows, []string{a.Name, string(a.Role), strconv.FormatBool(a.Disabled), moment(a.CreatedAt), moment(a.ChangedAt)})
	}
	table(p.stdout, rows)
}

// passwordFlag is a password that is never on a command line, which the list of processes shows.
type passwordFlag struct{ file string }

func (f *passwordFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "password", "", "@FILE to read it from, 12 characters or more; without it one is drawn by chance and printed once")
}

// read returns the password, and whether it was drawn.
func (f *passwordFlag) read(asJSON bool) (password string, drawn bool, err error) {
	const accepted = "@FILE, whose first line is the password"
	path, isFile := strings.CutPrefix(f.file, "@")
	switch {
	case f.file == "" && asJSON:
		return "", false, &mistake{"--password", "is required with --json, which prints only what the API answered", accepted}
	case f.file == "":
		return rand.Text(), true, nil
	case !isFile || path == "":
		return "", false, &mistake{"--password", "must not be on the command line", accepted}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", false, &mistake{"--password", "the file cannot be read", accepted}
	}
	password, _, _ = strings.Cut(string(text), "\n")
	password = strings.TrimSuffix(password, "\r")
	if password == "" {
		return "", false, &mistake{"--password", "the file is empty", accepted}
	}
	return password, false, nil
}

// showAccount prints an account, and its password if nobody knows it yet.
func (p *program) showAccount(a *client.Account, password string, drawn bool) {
	p.listAccounts([]client.Account{*a})
	if drawn {
		fmt.Fprintf(p.stdout, "Password: %s\nIt is not shown again.\n", password)
	}
}

func (p *program) accountAdd() *cobra.Command {
	var role string
	var secret passwordFlag
	cmd := &cobra.Command{
		Use: "add NAME --role ROLE", Short: "Make an account", Args: exactly("NAME"),
		Long: `Make an account.

  viewer    sees everything but accounts
  operator  runs sales: activities, switches, blocks, dead letters, repairs
  admin     also says who may come in, and which webhooks there are`,
		Example: "  seckill account add olga --role operator --reason 'runs the sale of the 11th'",
	}
	o := p.operatorFlags(cmd, true)
	cmd.Flags().StringVar(&role, "role", "", "viewer, operator or admin; required")
	secret.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !seckill.Role(role).Valid() {
			return &mistake{"--role", fmt.Sprintf("%q is not a role", role), "viewer, operator, admin"}
		}
		password, drawn, err := secret.read(o.json)
		if err != nil {
			return err
		}
		a, err := o.connect()
		if err != nil {
			return err
		}
		made, err := a.AddAccount(cmd.Context(), args[0], password, seckill.Role(role))
		return o.answer(err, func() { p.showAccount(&made, password, drawn) })
	}
	return cmd
}

func (p *program) accountPassword() *cobra.Command {
	var secret passwordFlag
	cmd := &cobra.Command{Use: "password NAME", Short: "Give an account another password, and end its sessions", Args: exactly("NAME")}
	o := p.operatorFlags(cmd, true)
	secret.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		password, drawn, err := secret.read(o.json)
		if err != nil {
			return err
		}
		a, err := o.connect()
		if err != nil {
			return err
		}
		changed, err := a.ChangeAccount(cmd.Context(), args[0], client.AccountChange{Password: password})
		return o.answer(err, func() { p.showAccount(&changed, password, drawn) })
	}
	return cmd
}

func (p *program) accountRemove() *cobra.Command {
	cmd := &cobra.Command{Use: "remove NAME", Short: "Remove an account, and end its sessions", Args: exactly("NAME")}
	o := p.operatorFlags(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := o.connect()
		if err != nil {
			return err
		}
		return o.done(a.RemoveAccount(cmd.Context(), args[0]), fmt.Sprintf("account %s: removed", printable(args[0])))
	}
	return cmd
}
