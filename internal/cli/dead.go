package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"seckill/client"
)

func (p *program) dead() *cobra.Command {
	cmd := group("dead", "Look after reservations that could not become orders")
	cmd.AddCommand(p.deadList(), p.deadRetry(), p.deadDrop())
	return cmd
}

func (p *program) deadList() *cobra.Command {
	var cursor string
	cmd := &cobra.Command{Use: "list", Short: "List the dead letters, newest first", Args: exactly()}
	o := p.operatorFlags(cmd, false)
	cmd.Flags().StringVar(&cursor, "cursor", "", "go on after this, from an earlier answer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a, err := o.connect()
		if err != nil {
			return err
		}
		list, next, err := a.DeadLetters(cmd.Context(), cursor)
		return o.answer(err, func() { p.listDead(list, next) })
	}
	return cmd
}

func (p *program) listDead(list []client.DeadLetter, next string) {
	if len(list) == 0 {
		fmt.Fprintln(p.stdout, "There are no dead letters.")
		return
	}
	rows := [][]string{{"ID", "ACTIVITY", "RUN", "BUYER", "QUANTITY", "ATTEMPTS", "AT", "TICKET", "REASON"}}
	for _, d := range list {
		rows = append(rows, []string{
			d.ID.String(), strconv.FormatInt(d.ActivityID, 10), strconv.Itoa(d.Run), first(d.Buyer, "-"), strconv.Itoa(d.Quantity),
			strconv.Itoa(d.Attempts), moment(d.At), first(d.Ticket, "-"), d.Reason,
		})
	}
	table(p.stdout, rows)
	if next != "" {
		fmt.Fprintf(p.stdout, "There are more: --cursor %s\n", printable(next))
	}
}

func (p *program) deadRetry() *cobra.Command {
	cmd := &cobra.Command{
		Use: "retry ID", Short: "Try again to make an order of a dead letter", Args: exactly("ID"),
		Long: "Try again to make an order of a dead letter. Exit status 1 if it is dead again.",
	}
	o := p.operatorFlags(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := o.connectFor(args)
		if err != nil {
			return err
		}
		id, _ := number(args[0]) // connectFor has checked it.
		done, err := a.RetryDead(cmd.Context(), id)
		if err := o.answer(err, func() { p.showDone(id, &done) }); err != nil {
			return err
		}
		if done.State == "dead" {
			return errQuiet
		}
		return nil
	}
	return cmd
}

func (p *program) showDone(id int64, done *client.DeadDone) {
	line := fmt.Sprintf("dead letter %d: %s", id, done.State)
	if done.Reason != "" {
		line += " (" + done.Reason + ")"
	}
	fmt.Fprintln(p.stdout, printable(line))
}

func (p *program) deadDrop() *cobra.Command {
	var back, out bool
	cmd := &cobra.Command{
		Use: "drop ID (--return-stock | --write-off)", Short: "Give a dead letter up, and say where its units go", Args: exactly("ID"),
	}
	o := p.operatorFlags(cmd, true)
	cmd.Flags().BoolVar(&back, "return-stock", false, "its units can be sold again")
	cmd.Flags().BoolVar(&out, "write-off", false, "its units leave the run")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if back == out {
			return &mistake{"--return-stock", "or --write-off has to be said, and not both", "one of the two"}
		}
		a, err := o.connectFor(args)
		if err != nil {
			return err
		}
		id, _ := number(args[0]) // connectFor has checked it.
		done, err := a.DropDead(cmd.Context(), id, back, o.reason)
		return o.answer(err, func() { p.showDone(id, &done) })
	}
	return cmd
}
