package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"seckill/client"
)

// audienceBytesMax is what the server takes.
const audienceBytesMax = 80 << 20

func (p *program) activityAudience() *cobra.Command {
	cmd := &cobra.Command{
		Use: "audience ID [FILE|-]", Short: "Say who may buy, from a list of buyers' ids",
		Args: cobra.MatchAll(func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return exactly("ID")(cmd, args)
		}),
		Long: `Say who may buy of an activity that is for listed buyers: a file, or - for the standard input, with a buyer's id on each
line, or a JSON array of them. The list takes the place of the one before, all at once. Without a file, show how many
are on the list.`,
	}
	o := p.operatorFlags(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := number(args[0])
		if err != nil {
			return err
		}
		var buyers []byte
		if len(args) == 2 {
			if buyers, err = readBuyers(cmd.InOrStdin(), args[1]); err != nil {
				return err
			}
		}
		a, err := o.connect()
		if err != nil {
			return err
		}
		var got client.Audience
		if len(args) == 2 {
			isJSON := filepath.Ext(args[1]) == ".json" || bytes.HasPrefix(bytes.TrimSpace(buyers[:min(len(buyers), 512)]), []byte("["))
			got, err = a.PutAudience(cmd.Context(), id, buyers, isJSON)
		} else {
			got, err = a.Audience(cmd.Context(), id)
		}
		return o.answer(err, func() { p.showAudience(id, &got) })
	}
	return cmd
}

func readBuyers(stdin io.Reader, name string) (buyers []byte, err error) {
	from := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, &mistake{"FILE", fmt.Sprintf("%q cannot be read", name), "a file with a buyer's id on each line, or -"}
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	buyers, err = io.ReadAll(io.LimitReader(from, audienceBytesMax+1))
	switch {
	case err != nil:
		return nil, &mistake{"FILE", "cannot be read to its end", "a file with a buyer's id on each line, or -"}
	case len(buyers) > audienceBytesMax:
		return nil, &mistake{"FILE", "is too large", "at most 80 MiB"}
	}
	return buyers, nil
}

func (p *program) showAudience(id int64, got *client.Audience) {
	if got.Version == 0 {
		fmt.Fprintf(p.stdout, "activity %d: there is no list of buyers\n", id)
		return
	}
	fmt.Fprintf(p.stdout, "activity %d: %d buyers, version %d, of %s\n", id, got.Count, got.Version, when0(got.UpdatedAt))
}
