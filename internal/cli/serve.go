package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"seckill/internal/app"
	"seckill/internal/config"
)

const settingsHelp = `
Each setting is a flag, a variable or a line of the YAML file that --config names, in that
order of precedence: --admin-listen is SECKILL_ADMIN_LISTEN and admin_listen. Settings that are
not known are errors, and all mistakes are said at once.

Flags can be read by everybody who can list the processes of the machine. Give secrets by
@FILE, in a variable, or in the file of settings.`

// withSettings makes a command whose flags are settings. Cobra does not parse them: the
// loader does, to find all mistakes, not only the first.
func withSettings(cmd *cobra.Command, of config.Command, environ []string, run func(*cobra.Command, config.Config) error) *cobra.Command {
	cmd.DisableFlagParsing = true
	cmd.Flags().SortFlags = false
	cmd.Flags().AddFlagSet(config.Flags(of))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := config.Load(args, environ, of)
		if errors.Is(err, pflag.ErrHelp) {
			return cmd.Help()
		}
		if err != nil {
			return err
		}
		return run(cmd, c)
	}
	return cmd
}

func (p *program) serve() *cobra.Command {
	return withSettings(&cobra.Command{
		Use: "serve --auth HOW --admin-token TOKEN", Short: "Run the server",
		Long: "Run the server.\n" + settingsHelp,
	}, config.Serve, p.environ, func(cmd *cobra.Command, c config.Config) error {
		log := logger(p.stdout, c)
		for _, w := range c.Warnings {
			log.Warn(w) //nolint:sloglint // The settings' own words.
		}
		a, err := app.New(cmd.Context(), c, thisBuild().Version, log)
		if err != nil {
			return fail(fmt.Errorf("start: %w", err))
		}
		log.Info("serving", "public", a.PublicAddr(), "admin", a.AdminAddr(), "version", thisBuild().Version)
		if err := a.Run(cmd.Context()); err != nil {
			return fail(fmt.Errorf("serve: %w", err))
		}
		log.Info("stopped")
		return nil
	})
}

// spelled writes a duration with its unit in JSON as well, where it would be a number of nanoseconds.
func spelled(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// logger writes to standard output: a server says nothing else there.
func logger(w io.Writer, c config.Config) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel, ReplaceAttr: spelled}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
