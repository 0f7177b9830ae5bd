package cli

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"seckill/internal/bench"
	"seckill/internal/plan"
)

func (p *program) plan() *cobra.Command {
	in := plan.Default()
	var clicks, peak, headroom string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "plan --participants N", Short: "Estimate the requests of a sale and the nodes for them", Args: exactly(),
		Example: "  seckill plan --participants 100000 --clicks 5 --duration 60s",
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Int64Var(&in.Participants, "participants", 0, "buyers that take part, a whole number from 1; required")
	f.StringVar(&clicks, "clicks", "5", "requests of each, a number above 0")
	f.DurationVar(&in.Duration, "duration", in.Duration, "in which they come, a duration such as 60s")
	f.StringVar(&peak, "peak-factor", "10", "peak over mean, a number from 1")
	f.StringVar(&headroom, "headroom", "0.5", "share to provide beyond the peak, a number from 0")
	f.Int64Var(&in.NodeQPS, "node-qps", in.NodeQPS, "what one node takes, a whole number from 1; the default is a guess: measure yours with seckill bench")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(*cobra.Command, []string) error {
		var ok bool
		if in.Clicks, ok = plan.ParseFactor(clicks); !ok {
			return &mistake{"--clicks", fmt.Sprintf("%q is not a number", clicks), "a decimal number such as 5"}
		}
		if in.PeakFactor, ok = plan.ParseFactor(peak); !ok {
			return &mistake{"--peak-factor", fmt.Sprintf("%q is not a number", peak), "a decimal number such as 10"}
		}
		if in.Headroom, ok = plan.ParseFactor(headroom); !ok {
			return &mistake{"--headroom", fmt.Sprintf("%q is not a number", headroom), "a decimal number such as 0.5"}
		}
		e, err := plan.Make(in)
		if wrong, ok := errors.AsType[*plan.Problem](err); ok {
			return &mistake{"--" + wrong.Field, wrong.Wrong, wrong.Accepted}
		}
		if asJSON {
			return fail(json.NewEncoder(p.stdout).Encode(e))
		}
		table(p.stdout, [][]string{
			{"requests in all", bench.Thousands(e.TotalRequests), fmt.Sprintf("%s buyers × %s clicks", bench.Thousands(in.Participants), clicks)},
			{"mean per second", bench.Thousands(e.MeanQPS), "in " + in.Duration.String()},
			{"peak per second", bench.Thousands(e.PeakQPS), "× " + peak},
			{"to provide per second", bench.Thousands(e.ProvisionQPS), "+ " + headroom + " of the peak"},
			{"nodes", bench.Thousands(e.Nodes), "of " + bench.Thousands(in.NodeQPS) + " per second each"},
		})
		return nil
	}
	return cmd
}
