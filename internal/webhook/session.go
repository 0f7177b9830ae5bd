package webhook

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"seckill"
)

// session is the time that a sender works for one webhook, under its lease: from when it has something
// to hear until it has not, or has to rest. All of it but the requests is done by one goroutine.
type session struct {
	*Sender
	id    int64
	owner string

	target  seckill.WebhookTarget
	queue   []seckill.Delivery
	flying  map[int64]bool // Requests under way.
	more    bool
	leaseTo time.Time     // By this process's clock.
	ahead   time.Duration // How far the database's clock is ahead of ours.
	results chan result

	failures int  // In a row.
	over     bool // Nothing more is to be begun.
}

// result is how one request ended.
type result struct {
	delivery seckill.Delivery
	answer   Answer
}

func newSession(s *Sender, id int64, owner string) *session {
	return &session{Sender: s, id: id, owner: owner, flying: map[int64]bool{}, results: make(chan result, s.InFlightMax)}
}

func (s *session) run(ctx context.Context) {
	// Requests outlive ctx, by Grace; and what became of them is noted, but not waited for without end.
	noting, forget := context.WithCancel(context.WithoutCancel(ctx))
	defer forget()
	sending, cut := context.WithCancel(noting)
	defer cut()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(s.Grace+storeTimeout, forget) })
	defer stop()
	for ctx.Err() == nil && s.work(ctx, sending) {
		s.await(ctx, noting)
	}
	s.drain(ctx, noting, cut)
	s.release(noting)
}

// drain waits for the requests under way: for each to its end, but no longer than Grace once ctx has ended.
func (s *session) drain(ctx, noting context.Context, cut func()) {
	ended := ctx.Done()
	var grace <-chan time.Time
	for len(s.flying) > 0 {
		select {
		case r := <-s.results:
			s.end(noting, r)
		case <-ended:
			timer := time.NewTimer(s.Grace)
			defer timer.Stop()
			ended, grace = nil, timer.C
		case <-grace:
			cut()
			grace = nil
		}
	}
}

// work begins what may be begun, and tells whether there is anything to wait for.
func (s *session) work(ctx, sending context.Context) bool {
	if s.over {
		return false
	}
	if len(s.queue) == 0 || time.Until(s.leaseTo) < s.Lease/2 {
		if !s.fetch(ctx) {
			return false
		}
	}
	width := s.InFlightMax
	if s.failures >= failuresMax {
		width = 1
	}
	for len(s.queue) > 0 && len(s.flying) < width {
		d := s.queue[0]
		s.queue = s.queue[1:]
		s.flying[d.ID] = true
		target := s.target
		go func() { // Joined by run, which waits for each result.
			s.results <- result{d, s.Client.Send(sending, target, "msg_"+strconv.FormatInt(d.ID, 10), d.Payload)}
		}()
	}
	return len(s.flying) > 0 || s.more
}

// fetch renews the lease and reads what is due, instead of what was read before.
func (s *session) fetch(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	skip := make([]int64, 0, len(s.flying))
	for id := range s.flying {
		skip = append(skip, id)
	}
	began := time.Now()
	w, err := s.Store.WebhookWork(ctx, s.id, s.owner, s.Lease, skip, page)
	if err != nil || !w.Held {
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("deliveries of a webhook cannot be read", "webhook", s.id, "error", err)
		}
		return false
	}
	s.leaseTo, s.ahead = began.Add(s.Lease), w.Now.Sub(began)
	if s.target.ID == 0 {
		s.failures = w.Target.Failures
	}
	s.target, s.queue, s.more = w.Target, w.Due, w.More
	return true
}

// await waits until there may be something to do: an answer, or new deliveries beside slow ones.
func (s *session) await(ctx, noting context.Context) {
	if len(s.flying) == 0 {
		return // The page held nothing that may be sent now; the next one may.
	}
	timer := time.NewTimer(s.Every)
	defer timer.Stop()
	select {
	case r := <-s.results:
		s.end(noting, r)
	case <-timer.C:
	case <-ctx.Done():
	}
}

// end notes how a request ended, and those that ended meanwhile. Its ctx is not the Run's: what was
// received is to be known.
func (s *session) end(ctx context.Context, first result) {
	all := []result{first}
	for len(all) < len(s.flying) && len(s.results) > 0 {
		all = append(all, <-s.results)
	}
	before := s.failures
	var ended []seckill.DeliveryResult
	var pause time.Duration
	gone := false
	for _, r := range all {
		delete(s.flying, r.delivery.ID)
		if canceled(r.answer) {
			continue // Nobody knows; it is sent again.
		}
		ended = append(ended, s.judge(r))
		pause = max(pause, r.answer.RetryAfter)
		gone = gone || r.answer.Status == http.StatusGone
	}
	if len(ended) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := s.Store.EndDeliveries(ctx, ended); err != nil {
		s.Log.Warn("how deliveries ended could not be noted; they are repeated", "webhook", s.id, "deliveries", len(ended), "error", err)
		s.over = true
		return
	}
	for _, e := range ended {
		s.Metrics.WebhookDeliveries.WithLabelValues(outcome(e.State)).Inc()
	}
	if gone {
		s.disable(ctx)
		return
	}
	s.rest(ctx, before, pause, all)
}

// judge says what is to become of a delivery.
func (s *session) judge(r result) seckill.DeliveryResult {
	e := seckill.DeliveryResult{ID: r.delivery.ID, State: seckill.DeliveryDelivered}
	if r.answer.Err == nil {
		s.failures = 0
		return e
	}
	s.failures++
	e.Error = r.answer.Err.Error()
	left := s.RetryFor - time.Now().Add(s.ahead).Sub(r.delivery.Since)
	if left <= 0 {
		e.State = seckill.DeliveryGivenUp
		return e
	}
	e.State = seckill.DeliveryPending
	e.RetryAfter = max(jitter(doubled(backoffLeast, backoffMost, r.delivery.Attempts)), r.answer.RetryAfter)
	// The last try is when the day is over.
	e.RetryAfter = min(e.RetryAfter, left)
	return e
}

// rest pauses a webhook that fails, or asks for it.
func (s *session) rest(ctx context.Context, before int, pause time.Duration, all []result) {
	if s.failures >= failuresMax {
		if before < failuresMax {
			s.Log.Warn("a webhook's receiver fails; it is tried now and then", "webhook", s.id, "failures", s.failures, "error", lastError(all))
		}
		pause = max(pause, jitter(doubled(pauseLeast, pauseMost, s.failures-failuresMax)))
	}
	if before >= failuresMax && s.failures == 0 {
		s.Log.Info("a webhook's receiver answers again", "webhook", s.id)
	}
	if pause == 0 && s.failures == before {
		return
	}
	s.over = s.over || pause > 0
	if err := s.Store.PauseWebhook(ctx, s.id, s.owner, s.failures, pause); err != nil {
		s.Log.Warn("the pause of a webhook could not be noted", "webhook", s.id, "error", err)
		s.over = true
	}
}

func lastError(all []result) error {
	for _, a := range slices.Backward(all) {
		if a.answer.Err != nil {
			return a.answer.Err
		}
	}
	return nil
}

func (s *session) disable(ctx context.Context) {
	s.over = true
	const reason = "The receiver answered 410 Gone."
	if err := s.Store.DisableWebhook(ctx, s.id, reason, seckill.Actor{Who: jobName, Reason: reason}); err != nil {
		s.Log.Warn("a webhook could not be disabled", "webhook", s.id, "error", err)
		return
	}
	s.Log.Warn("a webhook was disabled", "webhook", s.id, "reason", reason)
}

// release lets the next sender begin at once, rather than when the lease runs out.
func (s *session) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := s.Store.ReleaseWebhook(ctx, s.id, s.owner); err != nil {
		s.Log.Warn("the lease of a webhook could not be ended; it runs out", "webhook", s.id, "error", err)
	}
}

func outcome(state seckill.DeliveryState) string {
	switch state {
	case seckill.DeliveryDelivered:
		return "delivered"
	case seckill.DeliveryGivenUp:
		return "given_up"
	default:
		return "failed"
	}
}
