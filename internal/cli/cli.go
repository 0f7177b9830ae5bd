// Package cli is the command line: one file per subcommand. Commands are thin; they
// read flags, call app, client, bench or plan, and print. Only here is anything
// printed. cmd/seckill is its only user.
package cli

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// program is one call of the binary.
type program struct {
	stdout, stderr io.Writer
	environ        []string
}

// Run runs a command line (without the program's name) and returns the exit status: 0 done, 1
// it failed, 2 the command line or the configuration is wrong. SIGINT and
// SIGTERM end ctx, a second one the process.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, environ []string) int {
	ctx, stop := untilSignal(ctx, os.Exit)
	defer stop()
	p := &program{stdout, stderr, environ}
	root := p.root()
	if args == nil {
		args = []string{} // Cobra would take the process's own.
	}
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return p.end(cmd, err)
}

func (p *program) root() *cobra.Command {
	root := group("seckill", "A flash-sale server: exactly the right buyers, nothing lost, nothing sold twice")
	root.Long = root.Short + ".\n\nBegin with `seckill demo`."
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(flagMistake)
	// The commands in the order in which one needs them.
	cobra.EnableCommandSorting = false //nolint:reassign // Cobra knows no other way.
	root.AddCommand(p.demo(), p.serve(), p.migrate(), p.activity(), p.switches(), p.block(), p.account(), p.reconcile(), p.dead(), p.bench(), p.plan(), p.version())
	return root
}

// group is a command that only holds others.
func group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return &mistake{cmd.CommandPath() + " " + args[0], "is not a command", strings.Join(names(cmd), ", ")}
		},
	}
}

func names(cmd *cobra.Command) (list []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			list = append(list, c.Name())
		}
	}
	return list
}

// variable returns an environment variable, "" if it is not set.
func (p *program) variable(name string) string {
	value := ""
	for _, e := range p.environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// terminal tells whether a stream is watched by a person.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
