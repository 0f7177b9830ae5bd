package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"seckill/internal/app"
	"seckill/internal/config"
)

func (p *program) migrate() *cobra.Command {
	return withSettings(&cobra.Command{
		Use: "migrate", Short: "Bring the database's schema up to date",
		Long: "Bring the database's schema up to date. It is safe to run it twice, and from several nodes at once.\n" + settingsHelp,
	}, config.Migrate, p.environ, func(cmd *cobra.Command, c config.Config) error {
		if err := app.Migrate(cmd.Context(), c); err != nil {
			return fail(fmt.Errorf("migrate %s: %w", c.Database, err))
		}
		fmt.Fprintln(p.stdout, "The schema of", c.Database, "is up to date.")
		return nil
	})
}
