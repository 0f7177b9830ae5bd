package cli

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"seckill"
	"seckill/client"
)

func (p *program) block() *cobra.Command {
	cmd := group("block", "Keep somebody from buying, on every node within a second")
	cmd.AddCommand(p.blockList(), p.blockAdd(), p.blockRemove())
	return cmd
}

func (p *program) blockList() *cobra.Command {
	var cursor string
	cmd := &cobra.Command{Use: "list", Short: "List the blocks that are active, newest first", Args: exactly()}
	o := p.operatorFlags(cmd, false)
	cmd.Flags().StringVar(&cursor, "cursor", "", "go on after this, from an earlier answer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a, err := o.connect()
		if err != nil {
			return err
		}
		list, next, err := a.Blocks(cmd.Context(), cursor)
		for page := 1; err == nil && next != "" && !o.json && page < pagesMax; page++ {
			var more []client.Block
			more, next, err = a.Blocks(cmd.Context(), next)
			list = append(list, more...)
		}
		return o.answer(err, func() { p.listBlocks(list, next) })
	}
	return cmd
}

func (p *program) listBlocks(list []client.Block, next string) {
	if len(list) == 0 {
		fmt.Fprintln(p.stdout, "There are no blocks.")
		return
	}
	rows := [][]string{{"ID", "KIND", "VALUE", "UNTIL", "SOURCE", "BY", "REASON"}}
	for _, b := range list {
		rows = append(rows, []string{strconv.FormatInt(b.ID, 10), b.Kind, b.Value, when0(b.Until), b.Source, b.CreatedBy, b.Reason})
	}
	table(p.stdout, rows)
	if next != "" {
		fmt.Fprintf(p.stdout, "There are more: --cursor %s\n", printable(next))
	}
}

func (p *program) blockAdd() *cobra.Command {
	var until string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "add KIND VALUE --reason WHY", Short: "Block an address, a network, a user or a device", Args: exactly("KIND", "VALUE"),
		Long: `Block an address (ip), a network (cidr), a user or a device, until it is removed or for a while. It takes the
place of an active block of the same kind and value.`,
		Example: "  seckill block add cidr 192.0.2.0/24 --for 2h --reason 'scripts'",
	}
	o := p.operatorFlags(cmd, true)
	cmd.Flags().StringVar(&until, "until", "", "when it ends: "+timeForm)
	cmd.Flags().DurationVar(&lasts, "for", 0, "how long it lasts, instead of --until: a duration such as 2h")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(seckill.BlockKinds(), seckill.BlockKind(args[0])) {
			return &mistake{"KIND", fmt.Sprintf("%q is not a kind of block", args[0]), "ip, cidr, user or device"}
		}
		if err := o.needReason(); err != nil {
			return err
		}
		b := client.NewBlock{Kind: args[0], Value: args[1], Reason: o.reason}
		now := time.Now().UTC().Truncate(time.Millisecond)
		switch {
		case until != "" && cmd.Flags().Changed("for"):
			return &mistake{"--for", "contradicts --until", "one of the two"}
		case cmd.Flags().Changed("for"):
			if lasts <= 0 {
				return &mistake{"--for", lasts.String() + " is no time", "a duration such as 2h"}
			}
			end := now.Add(lasts)
			b.Until = &end
		case until != "":
			end, err := when("until", until, now)
			if err != nil {
				return err
			}
			b.Until = &end
		}
		a, err := o.connect()
		if err != nil {
			return err
		}
		made, err := a.AddBlock(cmd.Context(), b)
		return o.answer(err, func() { p.listBlocks([]client.Block{made}, "") })
	}
	return cmd
}

func (p *program) blockRemove() *cobra.Command {
	cmd := &cobra.Command{Use: "remove ID", Short: "End a block", Args: exactly("ID")}
	o := p.operatorFlags(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := number(args[0])
		if err != nil {
			return err
		}
		a, err := o.connect()
		if err != nil {
			return err
		}
		return o.done(a.RemoveBlock(cmd.Context(), id), fmt.Sprintf("block %d: removed", id))
	}
	return cmd
}
