package redisstock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// call is one call of a script.
type call struct {
	script     *script
	keys, args []string
}

// answer is what Redis said to a call.
type answer struct {
	rueidis.RedisMessage
	err error
}

var (
	errCrowded = errors.New("too many calls of redis are under way")
	errSlow    = errors.New("redis did not answer in time")
)

const (
	// repeatFor is how long a call is repeated that Redis refused for a reason that passes:
	// a slot on its way, a failover, a restart. The scripts bear to run twice.
	repeatFor = 500 * time.Millisecond
	// reconnectsMax is how often a call is repeated whose connection broke. Whether it
	// was done is unknown, and it does not matter.
	reconnectsMax = 2
	pauseLeast    = 2 * time.Millisecond
	pauseMost     = 40 * time.Millisecond
	// graceMost is how long before a deadline the client is told to stop.
	graceMost = 25 * time.Millisecond
)

// bound gives a context without a deadline one.
func (s *Stock) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.timeout)
}

// do calls one script.
func (s *Stock) do(ctx context.Context, c call) (rueidis.RedisMessage, error) {
	a := s.doAll(ctx, []call{c})[0]
	return a.RedisMessage, a.err
}

// doAll calls scripts at once, repeats those that may be, and answers each in its place. It
// returns when ctx ends, whatever Redis does; what is under way then may still happen.
func (s *Stock) doAll(ctx context.Context, calls []call) []answer {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	answers := make([]answer, len(calls))
	open := make([]int, len(calls)) // Indexes of those without a final answer.
	for i := range open {
		open[i] = i
	}
	begin := time.Now()
	pause := pauseLeast
	for round, broken := 0, 0; ; round++ {
		s.ask(ctx, calls, open, answers)
		var again []int
		cut := false
		for _, i := range open {
			switch err := answers[i].err; {
			case err == nil:
			case passes(err) && time.Since(begin) < repeatFor:
				again = append(again, i)
			case brokenOff(err) && broken < reconnectsMax:
				again = append(again, i)
				cut = true
			}
		}
		if cut {
			broken++
		}
		if len(again) == 0 || ctx.Err() != nil {
			break
		}
		open = again
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
		}
		pause = min(2*pause, pauseMost)
	}
	for i := range answers {
		if answers[i].err != nil {
			answers[i].err = fmt.Errorf("%s: %w", calls[i].script.name, answers[i].err)
		}
	}
	return answers
}

// ask makes one round of calls: by name first, and with the whole text for those whose
// script the server does not have.
func (s *Stock) ask(ctx context.Context, calls []call, open []int, answers []answer) {
	cmds := make([]rueidis.Completed, len(open))
	for n, i := range open {
		c := &calls[i]
		cmds[n] = s.client.B().Evalsha().Sha1(c.script.sha).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
	}
	s.send(ctx, cmds, open, answers)
	var missing []int
	for _, i := range open {
		var refused *rueidis.RedisError
		if errors.As(answers[i].err, &refused) && refused.IsNoScript() {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return
	}
	cmds = cmds[:len(missing)]
	for n, i := range missing {
		c := &calls[i]
		cmds[n] = s.client.B().Eval().Script(c.script.text).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
	}
	s.send(ctx, cmds, missing, answers)
}

// send sends commands in one go and puts their answers in place.
func (s *Stock) send(ctx context.Context, cmds []rueidis.Completed, at []int, answers []answer) {
	results, err := s.deliver(ctx, cmds)
	for n, i := range at {
		if err != nil {
			answers[i] = answer{err: err}
			continue
		}
		answers[i].RedisMessage, answers[i].err = results[n].ToMessage()
		if rueidis.IsRedisNil(answers[i].err) {
			answers[i].err = nil
		}
	}
}

// deliver waits for results no longer than ctx. The client may wait longer, for a
// connection to be made; flightsMax bounds how many such calls there can be.
func (s *Stock) deliver(ctx context.Context, cmds []rueidis.Completed) ([]rueidis.RedisResult, error) {
	if s.ctx.Err() != nil {
		return nil, ErrClosed
	}
	select {
	case s.slots <- struct{}{}:
	default:
		return nil, errCrowded
	}
	// The client stops a little earlier, and then tells what it has got of several.
	inner, cancel := ctx, context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok {
		inner, cancel = context.WithDeadline(ctx, deadline.Add(-min(time.Until(deadline)/10, graceMost)))
	}
	done := make(chan []rueidis.RedisResult, 1)
	go func() {
		defer func() { <-s.slots }()
		defer cancel()
		ctx := inner
		if len(cmds) == 1 {
			done <- []rueidis.RedisResult{s.client.Do(ctx, cmds[0])}
			return
		}
		done <- s.client.DoMulti(ctx, cmds...)
	}()
	select {
	case results := <-done:
		return results, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errSlow, context.Cause(ctx))
	}
}

// silent tells whether a server did not answer, or could not be reached.
func silent(err error) bool {
	return err != nil && (errors.Is(err, errSlow) || errors.Is(err, context.DeadlineExceeded) || brokenOff(err))
}

// passes tells whether Redis did nothing, for a reason that goes away by itself.
func passes(err error) bool {
	var refused *rueidis.RedisError
	if !errors.As(err, &refused) {
		return false
	}
	if _, moved := refused.IsMoved(); moved {
		return true
	}
	if _, ask := refused.IsAsk(); ask {
		return true
	}
	text := refused.Error()
	for _, word := range []string{"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY"} {
		// The error of a command inside a script comes with more around it.
		if strings.HasPrefix(text, word) || strings.Contains(text, "-"+word) {
			return true
		}
	}
	return false
}

// brokenOff tells whether the connection failed, so that nobody knows what Redis did.
func brokenOff(err error) bool {
	var refused *rueidis.RedisError
	return !errors.As(err, &refused) && !errors.Is(err, errSlow) && !errors.Is(err, errCrowded) &&
		!errors.Is(err, ErrClosed) && !errors.Is(err, rueidis.ErrClosing) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
