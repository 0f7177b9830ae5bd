package rocketqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	balanceEvery = 3 * time.Second        // At the latest; the brokers tell when members come and go.
	retryEvery   = 200 * time.Millisecond // After a failure.
)

// allocate says which of the queues, sorted, fall to one of the members, sorted. It is the
// rule that Apache's clients follow by default: neighbours together, the first members get
// one more if it does not come out even.
func allocate(queues []messageQueue, members []string, me string) []messageQueue {
	i, found := slices.BinarySearch(members, me)
	if !found {
		return nil
	}
	each, more := len(queues)/len(members), len(queues)%len(members)
	from := i*each + min(i, more)
	to := from + each
	if i < more {
		to++
	}
	return queues[from:to]
}

// keepBalanced takes and gives up queues as members come and go, until the subscription ends.
func (s *subscription) keepBalanced() {
	for s.ctx.Err() == nil {
		err := s.balance(s.ctx)
		s.trouble(err)
		wait := balanceEvery
		if err != nil {
			wait = retryEvery
		}
		timer := time.NewTimer(wait)
		select {
		case <-s.ctx.Done():
		case <-timer.C:
		case <-s.changed:
		}
		timer.Stop()
		if err != nil && s.ctx.Err() == nil {
			// A nudge does not make a server that is away come back any sooner.
			pause(s.ctx, retryEvery)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// balance tells every broker that we are there, asks one who else is, and takes the queues
// that fall to us. Then it tells where we are in each, should an earlier owner have said
// otherwise after us.
func (s *subscription) balance(ctx context.Context) error {
	r, err := s.cluster.route(ctx)
	if err != nil {
		return err
	}
	var asked string
	var errs []error
	for _, name := range r.brokers() {
		if err := s.heartbeat(ctx, r.masters[name]); err != nil {
			errs = append(errs, fmt.Errorf("join at broker %s: %w", name, err))
		} else if asked == "" {
			asked = r.masters[name]
		}
	}
	if asked == "" {
		return errors.Join(errs...)
	}
	members, err := s.members(ctx, asked)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	mine := allocate(r.readable, members, s.id)
	s.giveUp(ctx, mine)
	for _, m := range mine {
		if err := s.takeOver(ctx, r, m); err != nil {
			errs = append(errs, fmt.Errorf("take over queue %s/%d: %w", m.broker, m.id, err))
		}
	}
	errs = append(errs, s.commit(ctx, true, s.all()...))
	return errors.Join(errs...)
}

func (s *subscription) heartbeat(ctx context.Context, addr string) error {
	type interest struct {
		Topic   string   `json:"topic"`
		Sub     string   `json:"subString"`
		Tags    []string `json:"tagsSet"`
		Codes   []int    `json:"codeSet"`
		Version int64    `json:"subVersion"`
		Kind    string   `json:"expressionType"`
	}
	type consumer struct {
		Group     string     `json:"groupName"`
		Kind      string     `json:"consumeType"`
		Model     string     `json:"messageModel"`
		From      string     `json:"consumeFromWhere"`
		Interests []interest `json:"subscriptionDataSet"`
	}
	body, err := json.Marshal(struct {
		Client    string     `json:"clientID"`
		Producers []int      `json:"producerDataSet"`
		Consumers []consumer `json:"consumerDataSet"`
	}{s.id, []int{}, []consumer{{
		s.cluster.group, "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET",
		[]interest{{s.cluster.topic, "*", []string{}, []int{}, s.since, "TAG"}},
	}}})
	if err != nil {
		return err
	}
	f, err := s.cluster.call(ctx, addr, askHeartbeat, nil, body)
	if err != nil {
		return err
	}
	return f.expect(saidOK)
}

// members are the ids of all that consume now, sorted; we have to be among them.
func (s *subscription) members(ctx context.Context, addr string) ([]string, error) {
	f, err := s.cluster.call(ctx, addr, askMembers, map[string]string{"consumerGroup": s.cluster.group}, nil)
	if err == nil {
		err = f.expect(saidOK)
	}
	var data struct {
		IDs []string `json:"consumerIdList"`
	}
	if err == nil {
		err = json.Unmarshal(f.body, &data)
	}
	if err == nil && !slices.Contains(data.IDs, s.id) {
		err = errors.New("the broker does not know us yet")
	}
	if err != nil {
		return nil, fmt.Errorf("who else consumes: %w", err)
	}
	slices.Sort(data.IDs)
	return data.IDs, nil
}

// leave tells the brokers that we are gone, so that others take over at once.
func (s *subscription) leave(ctx context.Context) {
	r, _ := s.cluster.lastRoute()
	for _, addr := range r.masters {
		// Without an answer the broker finds out by itself when the connection ends.
		_, _ = s.cluster.call(ctx, addr, askUnregister, map[string]string{
			"clientID": s.id, "consumerGroup": s.cluster.group,
		}, nil)
	}
}

// giveUp hands back the queues that do not fall to us any more.
func (s *subscription) giveUp(ctx context.Context, mine []messageQueue) {
	s.mu.Lock()
	var lost []*assignment
	for m, a := range s.owned {
		if !slices.Contains(mine, m) {
			lost = append(lost, a)
			s.revoke(a)
		}
	}
	s.mu.Unlock()
	if len(lost) > 0 {
		// Should it fail, the next owner delivers some once more.
		_ = s.commit(ctx, false, lost...)
	}
}

// revoke ends an assignment. The mutex is held.
func (s *subscription) revoke(a *assignment) {
	a.revoked = true
	a.cancel()
	delete(s.owned, a.messageQueue)
	s.ready = slices.DeleteFunc(s.ready, func(m arrival) bool { return m.from == a })
}

// takeOver begins to pull from a queue, if that has not been done.
func (s *subscription) takeOver(ctx context.Context, r route, m messageQueue) error {
	s.mu.Lock()
	known := s.owned[m] != nil
	s.mu.Unlock()
	if known {
		return nil
	}
	at, err := s.cluster.begin(ctx, r, m)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	a := newAssignment(s.ctx, s, m, at)
	s.owned[m] = a
	s.workers.Go(func() { s.pull(a) })
	return nil
}
