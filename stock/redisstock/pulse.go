package redisstock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"seckill"
	"seckill/stock"
)

var pulseScript = newScript("pulse")

// infoTimeout is how long servers have to say who they are.
const infoTimeout = 500 * time.Millisecond

// Pulse tells whether a run may be an older one than buyers were told of. The first call after
// a load marks each sub-stock with the server that has it; strange is not empty if another
// server has one now, or the same after it was started again. A slot of a cluster that was
// moved is no reason: nothing is lost on that way.
//
// beats has one number for each sub-stock, which is higher with each call of anybody's: one that
// is lower than before tells of an older state, too. A sub-stock that does not answer has 0,
// and the error tells why if nothing else is wrong. stock.ErrNotLoaded if the run is not
// there under this epoch.
func (s *Stock) Pulse(ctx context.Context, run seckill.RunID, epoch int64) (beats []int64, strange string, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	sp, err := s.splitOf(ctx, run, epoch)
	if err != nil {
		return nil, "", err
	}
	calls := make([]call, sp.subs)
	for i := range calls {
		calls[i] = s.pulseCall(sp, i, "")
	}
	beats = make([]int64, sp.subs)
	var errs []error
	for i, a := range s.doAll(ctx, calls) {
		p, err := readPulse(a)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		beats[i] = p.beats
		if p.mark == p.here || p.here == "" {
			continue
		}
		if s.movedFrom(ctx, p.mark) {
			if _, err := s.do(ctx, s.pulseCall(sp, i, p.mark)); err != nil {
				errs = append(errs, err)
			}
			continue
		}
		strange = fmt.Sprintf("sub-stock %d is on another server than it was put on, or that was started again", i)
	}
	if strange != "" {
		return beats, strange, nil
	}
	return beats, "", errors.Join(errs...)
}

// Trust marks each sub-stock with the server that has it now.
func (s *Stock) Trust(ctx context.Context, run seckill.RunID, epoch int64) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	sp, err := s.splitOf(ctx, run, epoch)
	if err != nil {
		return err
	}
	for i := range sp.subs {
		p, err := readPulse(s.doAll(ctx, []call{s.pulseCall(sp, i, "")})[0])
		if err == nil && p.mark != p.here && p.here != "" {
			_, err = readPulse(s.doAll(ctx, []call{s.pulseCall(sp, i, p.mark)})[0])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// splitOf is how a run is split under an epoch; stock.ErrNotLoaded if it is not there under it.
func (s *Stock) splitOf(ctx context.Context, run seckill.RunID, epoch int64) (*split, error) {
	sp, err := s.split(ctx, run)
	if err == nil && sp.epoch != epoch {
		sp, err = s.learn(ctx, run)
	}
	if err != nil {
		return nil, err
	}
	if sp.epoch != epoch {
		return nil, stock.ErrNotLoaded
	}
	return sp, nil
}

func (s *Stock) pulseCall(sp *split, sub int, replaced string) call {
	return call{pulseScript, []string{runKey(s.tag(place{sp.run, sub}))}, []string{fmt.Sprint(sp.epoch), replaced}}
}

// pulse is the answer of pulse.lua.
type pulse struct {
	mark, here string
	beats      int64
}

func readPulse(a answer) (p pulse, err error) {
	if a.err != nil {
		return p, a.err
	}
	fields, err := a.ToArray()
	switch {
	case err != nil:
		return p, err
	case len(fields) == 0:
		return p, stock.ErrNotLoaded
	case len(fields) != 3:
		return p, fmt.Errorf("pulse answers %d values", len(fields))
	}
	var errs [3]error
	p.mark, errs[0] = fields[0].ToString()
	p.here, errs[1] = fields[1].ToString()
	p.beats, errs[2] = fields[2].AsInt64()
	return p, errors.Join(errs[:]...)
}

// movedFrom tells whether the server of a mark is a master of this cluster still: then it has
// given the slot away, and did not lose it to a replica of its own. One that is cut off from
// the others still calls itself a master, but says that the cluster is down.
func (s *Stock) movedFrom(ctx context.Context, mark string) bool {
	nodes := s.client.Nodes()
	if len(nodes) < 2 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	var asked sync.WaitGroup
	found := make(chan struct{}, len(nodes))
	for _, node := range nodes {
		asked.Go(func() {
			answers := node.DoMulti(ctx, infoOf(node, "server"), infoOf(node, "replication"), node.B().ClusterInfo().Build())
			for i, want := range []string{"run_id:" + mark, "role:master", "cluster_state:ok"} {
				if said, err := answers[i].ToString(); err != nil || !strings.Contains(said, want) {
					return
				}
			}
			found <- struct{}{}
		})
	}
	asked.Wait()
	return len(found) > 0
}

func infoOf(node rueidis.Client, section string) rueidis.Completed {
	return node.B().Info().Section(section).Build()
}
