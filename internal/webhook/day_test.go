package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
	"seckill/internal/webhook"
)

// scripted is a client that asks nobody.
type scripted struct {
	mu     sync.Mutex
	began  time.Time
	tries  []time.Duration // When, since it was made.
	answer func(n int) webhook.Answer
}

func newScripted(answer func(n int) webhook.Answer) *scripted {
	return &scripted{began: time.Now(), answer: answer}
}

func (s *scripted) Send(context.Context, seckill.WebhookTarget, string, []byte) webhook.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries = append(s.tries, time.Since(s.began))
	return s.answer(len(s.tries))
}

func (s *scripted) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tries)
}

var failing = webhook.Answer{Status: 500, Err: errors.New("status 500")}

// A delivery is tried for a day, ever more seldom, and then given up, visibly.
func TestADeliveryIsTriedForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		hook := s.hook("https://shop.example/")
		s.sell(0, 1)
		client := newScripted(func(int) webhook.Answer { return failing })
		sender := s.sender(client)
		sender.Every = 30 * time.Second
		stop := start(t, sender)
		defer stop()
		<-time.After(24*time.Hour + 5*time.Minute)
		list, err := s.WebhookDeliveries(t.Context(), hook, 0, 10)
		must(t, err)
		d := list[0]
		if d.State != seckill.DeliveryGivenUp || d.LastError != "status 500" || d.Attempts != client.count() {
			t.Errorf("after a day: %+v", d)
		}
		tries := client.tries
		if len(tries) < 15 || len(tries) > 40 || tries[0] > time.Minute || tries[len(tries)-1] < 24*time.Hour {
			t.Errorf("%d tries: %v", len(tries), tries)
		}
		for i := 1; i < len(tries); i++ {
			gap, least := tries[i]-tries[i-1], min(5*time.Second<<(i-1), 2*time.Hour)*3/4
			if gap > 2*time.Hour*5/4+2*time.Minute || gap < least && i < len(tries)-1 {
				t.Errorf("try %d comes %v after the one before, want at least %v", i+1, gap, least)
			}
		}
		<-time.After(3 * time.Hour)
		if n := client.count(); n != len(tries) {
			t.Errorf("%d tries more after that", n-len(tries))
		}
	})
}

// A receiver that fails altogether is asked once in a while, not once for everything that waits; and
// when it answers again it gets everything soon.
func TestADeadReceiverIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		hook := s.hook("https://shop.example/")
		s.sell(0, 500)
		var mu sync.Mutex
		answers := failing
		client := newScripted(func(int) webhook.Answer { mu.Lock(); defer mu.Unlock(); return answers })
		sender := s.sender(client)
		sender.Every = time.Second
		stop := start(t, sender)
		defer stop()
		<-time.After(10 * time.Minute)
		if n := client.count(); n < 16 || n > 40 {
			t.Errorf("%d requests in ten minutes", n)
		}
		mu.Lock()
		answers = webhook.Answer{Status: 200}
		mu.Unlock()
		<-time.After(2 * time.Minute)
		if n := s.states(hook); n["delivered"] < 480 {
			t.Errorf("two minutes later: %v", n)
		}
		hooks, err := s.Webhooks(t.Context())
		must(t, err)
		if hooks[0].Disabled {
			t.Error("it was disabled")
		}
	})
}

// Who says when to come again is asked no earlier, for whatever waits.
func TestRetryAfterIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		hook := s.hook("https://shop.example/")
		s.sell(0, 50)
		client := newScripted(func(n int) webhook.Answer {
			if n == 1 {
				return webhook.Answer{Status: 429, RetryAfter: 10 * time.Minute, Err: errors.New("status 429")}
			}
			return webhook.Answer{Status: 200}
		})
		sender := s.sender(client)
		sender.InFlightMax = 1
		sender.Every = time.Second
		stop := start(t, sender)
		defer stop()
		<-time.After(9*time.Minute + 50*time.Second)
		if n := client.count(); n != 1 {
			t.Errorf("%d requests before the time", n)
		}
		<-time.After(30 * time.Second)
		if n := s.states(hook); fmt.Sprint(n) != "map[delivered:50]" {
			t.Errorf("after it: %v", n)
		}
	})
}

// hanging is a client whose requests end with their context only.
type hanging struct{ begun chan struct{} }

func (h hanging) Send(ctx context.Context, _ seckill.WebhookTarget, _ string, _ []byte) webhook.Answer {
	h.begun <- struct{}{}
	<-ctx.Done()
	return webhook.Answer{Status: 200} // It was received, but too late.
}

// A sender that is to end does so within seconds, though neither a receiver nor the database answers.
func TestASenderEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		s.hook("https://shop.example/")
		s.sell(0, 50)
		store := &stuck{shop: s}
		client := hanging{make(chan struct{}, 100)}
		sender := s.sender(client)
		sender.Store, sender.Grace = store, 0
		stop := start(t, sender)
		for range 8 {
			<-client.begun
		}
		store.from.Store(true)
		began := time.Now()
		stop()
		if d := time.Since(began); d > 6*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}
