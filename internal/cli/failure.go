package cli

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"seckill/client"
	"seckill/internal/config"
)

// The exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// failure is an error of a command whose line was right.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// fail marks an error as no fault of the command line. nil stays nil.
func fail(err error) error {
	if err == nil {
		return nil
	}
	return &failure{err}
}

// errQuiet fails without a line of its own: what is wrong has been printed.
var errQuiet = &failure{errors.New("failed")}

// mistake is one thing that is wrong with the command line.
type mistake struct{ setting, wrong, accepted string }

func (m *mistake) Error() string {
	return m.setting + ": " + m.wrong + "; accepted: " + m.accepted
}

// end prints what went wrong, a line each, and returns the exit status.
func (p *program) end(cmd *cobra.Command, err error) int {
	if err == nil {
		return exitDone
	}
	if errors.Is(err, errQuiet) {
		return exitFailed
	}
	status, lines := exitUsage, config.Mistakes(err)
	var failed *failure
	var said *client.Problem
	switch {
	case errors.As(err, &said) && said.Reason == "invalid_request" && len(said.Errors) > 0:
		lines = fieldLines(cmd, said)
	case errors.As(err, &failed):
		status, lines = exitFailed, []string{failed.Error()}
	}
	for _, l := range lines {
		fmt.Fprintln(p.stderr, "seckill: "+printable(l))
	}
	return status
}

// fieldLines says what the server found wrong with values, by the names that they have here.
func fieldLines(cmd *cobra.Command, said *client.Problem) (lines []string) {
	for _, f := range said.Errors {
		name := f.Field
		if flag := strings.ReplaceAll(f.Field, "_", "-"); cmd.Flags().Lookup(flag) != nil {
			name = "--" + flag
		}
		text := f.Msg
		if text == "" {
			text = f.Rule
		}
		if f.Expected != "" {
			text += "; accepted: " + f.Rule + " " + f.Expected
		}
		lines = append(lines, name+": "+text)
	}
	return lines
}

// printable takes away what text from outside could do to a terminal, or to a line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// flagMistake says what is wrong with a flag without showing its value if that may be a secret.
func flagMistake(cmd *cobra.Command, err error) error {
	help := "`seckill help " + strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "seckill"), " ") + "` lists them"
	var unknown *pflag.NotExistError
	var valueless *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		name := "--" + unknown.GetSpecifiedName()
		if s := unknown.GetSpecifiedShortnames(); s != "" {
			name = "-" + unknown.GetSpecifiedName()
		}
		return &mistake{name, "is not a flag of this command", help}
	case errors.As(err, &valueless):
		return &mistake{"--" + valueless.GetFlag().Name, "has no value", valueless.GetFlag().Usage}
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		return &mistake{"--" + f.Name, fmt.Sprintf("%q is not a %s", invalid.GetValue(), kind(f)), f.Usage}
	}
	return &mistake{"the flags", "cannot be read", help}
}

func kind(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int64", "uint64":
		return "whole number"
	case "float64":
		return "number"
	case "bool":
		return "true or false"
	}
	return f.Value.Type()
}

// exactly wants so many arguments, and says which.
func exactly(what ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(what):
			return &mistake{what[len(args)], "is missing", cmd.UseLine()}
		case len(args) > len(what):
			// Not shown: it may be part of a secret with a space in it.
			return &mistake{"the arguments", fmt.Sprintf("are %d, not %d", len(args), len(what)), cmd.UseLine()}
		}
		return nil
	}
}
