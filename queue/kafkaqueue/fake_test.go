package kafkaqueue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seckill/queue"
	"seckill/queue/kafkaqueue"
	"seckill/queue/queuetest"
)

// A cluster of three brokers in this process obeys the same contract, which proves it fit
// for the faults below.
func TestFakeCluster(t *testing.T) {
	queuetest.Run(t, func(t *testing.T) queuetest.Open {
		url := fakeURL(fake(t), "")
		return func(t *testing.T) queue.Queue { return open(t, kafkaqueue.Options{URL: url}) }
	})
}

// What brokers answer when they are in trouble for a moment: nobody here notices, nothing
// is lost, and nothing is there twice, though some of it was written before the error.
func TestTroublesThatPass(t *testing.T) {
	for name, fault := range map[string]kfake.Fault{
		"a leader that is none":             {Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: 5},
		"written, and not enough have it":   {Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: 5},
		"written, and nobody says so":       {Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: 5},
		"not enough replicas":               {Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: 5},
		"a fetch from who is no leader":     {Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 5},
		"a fetch that fails":                {Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.UnknownServerError, Count: 5},
		"a disk that fails":                 {Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.KafkaStorageError, Count: 5},
		"a coordinator that has moved":      {Keys: []kmsg.Key{kmsg.OffsetCommit, kmsg.Heartbeat}, TopLevel: true, Err: kerr.NotCoordinator, Count: 5},
		"a coordinator that loads":          {Keys: []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup}, TopLevel: true, Err: kerr.CoordinatorLoadInProgress, Count: 5},
		"a commit that fails":               {Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownServerError, Count: 5},
		"a commit in another's generation":  {Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.IllegalGeneration, Count: 3},
		"a commit in the midst of a change": {Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.RebalanceInProgress, Count: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fake(t)
			q := open(t, kafkaqueue.Options{URL: fakeURL(c, "")})
			h := c.Fault(fault)
			start := time.Now()
			s := subscribe(t, q)
			seen := map[string]int{}
			for i := range 10 {
				must(t, q.Publish(patience(t), messages(fmt.Sprintf("%d-", i), 20)...))
				for _, d := range receive(t, s, 20) {
					seen[d.ID]++
					must(t, s.Ack(patience(t), d))
				}
			}
			must(t, h.Wait(patience(t), 1))
			backlogIs(t, q, 0)
			// At 5 s, the client's usual time between two looks at who leads, it would be 25 s.
			if took := time.Since(start); took > 15*time.Second {
				t.Errorf("it took %v", took)
			}
			for id, n := range seen {
				if n != 1 {
					t.Errorf("%s was delivered %d times", id, n)
				}
			}
			if len(seen) != 200 {
				t.Errorf("got %d messages, want 200", len(seen))
			}
		})
	}
}

// A member that its group has forgotten joins again, and goes on where it was committed.
func TestForgottenMemberJoinsAgain(t *testing.T) {
	for _, err := range []*kerr.Error{kerr.UnknownMemberID, kerr.IllegalGeneration} {
		t.Run(err.Message, func(t *testing.T) {
			c := fake(t)
			q := open(t, kafkaqueue.Options{URL: fakeURL(c, "")})
			must(t, q.Publish(patience(t), messages("a", 3)...))
			s := subscribe(t, q)
			ds := receive(t, s, 3)
			must(t, s.Ack(patience(t), ds[0]))
			backlogIs(t, q, 2)
			must(t, c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Err: err}).Wait(patience(t), 1))
			if got := ids(receive(t, s, 2)); got != "a1 a2" {
				t.Fatalf("got %s, want what it had in hand, again", got)
			}
			// The old deliveries are not the new ones.
			must(t, s.Ack(patience(t), ds...))
			must(t, q.Publish(patience(t), queue.Message{ID: "more", Key: "a"}))
			more := receive(t, s, 1)
			if b, err := q.Backlog(patience(t)); err != nil || b.Waiting != 3 {
				t.Errorf("got a backlog of %d, %v, want 3", b.Waiting, err)
			}
			if more[0].ID != "more" {
				t.Errorf("got %s, want more", more[0].ID)
			}
		})
	}
}

// What a consumer knew of a partition that went to another is nothing when it comes back:
// it begins where the other has ended.
func TestPartitionComesBack(t *testing.T) {
	c := fake(t, kfake.SeedTopics(2, fakeTopic))
	q := open(t, kafkaqueue.Options{URL: fakeURL(c, "")})
	first := subscribe(t, q)
	elsewhere := keyOfAnotherPartition("a", 2)
	must(t, q.Publish(patience(t), append(messages("a", 3), messages(elsewhere, 3)...)...))
	held := receive(t, first, 6) // And not acknowledged.

	second := subscribe(t, q)
	await(t, "the other to have a partition", func() bool {
		got, err := c.WaitGroupStable(patience(t), fakeTopic, 2)
		return err == nil && got.Members[0].NumAssigned() == 1 && got.Members[1].NumAssigned() == 1
	})
	// The first has to ask now and then, for partitions change hands when nobody works.
	must(t, q.Publish(patience(t), append(messages("a", 1), messages(elsewhere, 1)...)...))
	must(t, first.Ack(patience(t), receive(t, first, 1)...))
	must(t, second.Ack(patience(t), receive(t, second, 4)...))
	backlogIs(t, q, 4)
	must(t, second.Close())

	must(t, q.Publish(patience(t), append(messages("a", 1), messages(elsewhere, 1)...)...))
	must(t, first.Ack(patience(t), receive(t, first, 2)...))
	backlogIs(t, q, 5) // The three in hand, and the two behind them.
	must(t, first.Ack(patience(t), held...))
	backlogIs(t, q, 0)
}

// Partitions and groups that move from broker to broker in mid-stream lose nothing. (Some of it comes twice: the fake cluster keeps no history of who
// led a partition, so the consumer thinks that records were lost, and goes back.)
func TestEverythingMoves(t *testing.T) {
	c := fake(t, kfake.SeedTopics(8, fakeTopic))
	q := open(t, kafkaqueue.Options{URL: fakeURL(c, "")})
	s := subscribe(t, q)
	seen := map[string]bool{}
	for i := range 30 {
		for p := range int32(8) {
			must(t, c.MoveTopicPartition(fakeTopic, p, int32(i)%3))
		}
		if i%5 == 0 {
			c.RehashCoordinators()
		}
		must(t, q.Publish(patience(t), messages(fmt.Sprintf("%d-", i), 20)...))
		for len(seen) < 20*(i+1) {
			ds := receive(t, s, 1)
			seen[ds[0].ID] = true
			must(t, s.Ack(patience(t), ds...))
		}
	}
}

// What no further try mends is told to the caller: a right that was taken away.
func TestRightTakenAwayIsAnError(t *testing.T) {
	for name, fault := range map[string]kfake.Fault{
		"to commit": {Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.GroupAuthorizationFailed, Count: -1},
		"to fetch":  {Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: -1},
		"to join":   {Keys: []kmsg.Key{kmsg.JoinGroup}, TopLevel: true, Err: kerr.GroupAuthorizationFailed, Count: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fake(t)
			q := open(t, kafkaqueue.Options{URL: fakeURL(c, "")})
			must(t, q.Publish(patience(t), messages("a", 1)...))
			c.Fault(fault)
			s := subscribe(t, q)
			for {
				ds, err := s.Receive(patience(t), 10)
				if err == nil {
					must(t, q.Publish(patience(t), messages("b", 1)...))
					err = s.Ack(patience(t), ds...)
				}
				if err != nil {
					if !errors.Is(err, fault.Err) {
						t.Errorf("got %v, want %v", err, fault.Err)
					}
					return
				}
			}
		})
	}
	t.Run("to publish", func(t *testing.T) {
		c := fake(t)
		q := open(t, kafkaqueue.Options{URL: fakeURL(c, "")})
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed})
		if err := q.Publish(patience(t), messages("a", 3)...); !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Errorf("got %v, want that the right is missing", err)
		}
		must(t, q.Publish(patience(t), messages("a", 3)...))
	})
}

// One message that is not acknowledged lets a bounded number pass it; then its partition
// rests, and no other does, until it is done.
func TestPartitionRestsBehindWhatIsNotAcknowledged(t *testing.T) {
	c := fake(t, kfake.SeedTopics(2, fakeTopic))
	q := open(t, kafkaqueue.Options{URL: fakeURL(c, ""), UnackedMax: 50})
	s := subscribe(t, q)
	must(t, q.Publish(patience(t), messages("parked", 1)...))
	parked := receive(t, s, 1)
	behind, other := 0, 0
	elsewhere := keyOfAnotherPartition("parked", 2)
	for range 200 {
		must(t, q.Publish(patience(t), append(messages("parked", 1), messages(elsewhere, 1)...)...))
	}
	for other < 200 {
		for _, d := range receive(t, s, 1) {
			if d.Key == "parked" {
				behind++
			} else {
				other++
			}
			must(t, s.Ack(patience(t), d))
		}
	}
	if behind == 0 || behind > 60 {
		t.Errorf("%d messages passed the one that waits, want some, and about 50 at most", behind)
	}
	must(t, s.Ack(patience(t), parked...))
	for behind < 200 {
		ds := receive(t, s, 1)
		behind += len(ds)
		must(t, s.Ack(patience(t), ds...))
	}
	backlogIs(t, q, 0)
}

// keyOfAnotherPartition finds a key that goes elsewhere than the one given.
func keyOfAnotherPartition(key string, partitions int) string {
	place := func(key string) int {
		return kgo.StickyKeyPartitioner(nil).ForTopic(fakeTopic).Partition(&kgo.Record{Key: []byte(key)}, partitions)
	}
	other := "other"
	for place(other) == place(key) {
		other += "-"
	}
	return other
}

// A message that is larger than the topic allows is an error, and not a hang.
func TestTooLargeIsAnError(t *testing.T) {
	c := fake(t)
	must(t, c.CreateTopic(fakeTopic, 1, map[string]string{"max.message.bytes": "1000"}))
	q := open(t, kafkaqueue.Options{URL: fakeURL(c, "")})
	noise := make([]byte, 3000)
	for i := range noise {
		noise[i] = byte(i*i>>3 ^ i)
	}
	err := q.Publish(patience(t), queue.Message{ID: "large", Body: noise})
	if err == nil || !strings.Contains(err.Error(), "too large") && !strings.Contains(err.Error(), "TOO_LARGE") {
		t.Errorf("got %v, want that it is too large", err)
	}
	// Many that are small do not fail for being many.
	must(t, q.Publish(patience(t), messages("a", 200)...))
}
