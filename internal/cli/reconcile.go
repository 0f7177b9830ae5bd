package cli

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"seckill"
	"seckill/client"
)

func (p *program) reconcile() *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use: "reconcile [ID]", Short: "Compare stock, queue and database, of one activity or of all", Args: cobra.MaximumNArgs(1),
		Long: "Compare stock, queue and database, of one activity or of all, and print what differs.\n" +
			"Exit status 1 if the books of one do not balance in the end, or something is wrong that was not\n" +
			"repaired. Dead letters, and changes and restocks that are on their way, are not wrong.",
	}
	o := p.operatorFlags(cmd, true)
	cmd.Flags().BoolVar(&repair, "repair", false, "put right what can be")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return exactly("ID")(cmd, args)
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := o.connectFor(args)
		if err != nil {
			return err
		}
		ids, err := o.which(cmd, a, args)
		if err != nil {
			return err
		}
		right := true
		for _, id := range ids {
			report, err := a.Reconcile(cmd.Context(), id, repair)
			if err := o.answer(err, func() { p.showReport(id, &report) }); err != nil {
				return err
			}
			right = right && report.Balanced && !slices.ContainsFunc(report.Findings, wrong)
		}
		if !right {
			return errQuiet
		}
		return nil
	}
	return cmd
}

// wrong tells whether a finding is more than a notice.
func wrong(f seckill.Finding) bool {
	switch f.Kind {
	case "dead_letters", "unfinished_todo", "unfinished_restock":
		return false
	}
	return !f.Repaired
}

// connectFor makes the client, once the arguments are known to be right.
func (o *operator) connectFor(args []string) (*client.Admin, error) {
	if len(args) > 0 {
		if _, err := number(args[0]); err != nil {
			return nil, err
		}
	}
	return o.connect()
}

// which activities are meant: the one that is named, or all.
func (o *operator) which(cmd *cobra.Command, a *client.Admin, args []string) ([]int64, error) {
	if len(args) > 0 {
		id, err := number(args[0])
		return []int64{id}, err
	}
	var ids []int64
	for next := ""; ; {
		list, cursor, err := a.Activities(cmd.Context(), next)
		if err != nil {
			return nil, told(err)
		}
		for i := range list {
			ids = append(ids, list[i].ID)
		}
		if next = cursor; next == "" {
			return ids, nil
		}
	}
}

func (p *program) showReport(id int64, r *client.Report) {
	fmt.Fprintf(p.stdout, "activity %d: %s\n", id, equation(&r.Books))
	if len(r.Findings) == 0 {
		return
	}
	rows := [][]string{{"FINDING", "UNITS", "REPAIRED", "DETAIL"}}
	for _, f := range r.Findings {
		rows = append(rows, []string{f.Kind, strconv.FormatInt(f.Units, 10), yes(f.Repaired), f.Detail})
	}
	table(p.stdout, rows)
}
