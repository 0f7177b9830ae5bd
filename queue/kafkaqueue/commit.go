package kafkaqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitLoop commits whenever something was acknowledged, one commit at a time, so that
// many acknowledgements share one.
func (s *subscription) commitLoop() {
	defer close(s.done)
	for {
		select {
		case <-s.closing.Done():
			return
		case <-s.acked:
		}
		for failures := 1; ; failures++ {
			err := s.commit(s.closing)
			if err == nil || s.closing.Err() != nil {
				break
			}
			if final(err) {
				s.mu.Lock()
				s.failed = fmt.Errorf("commit: %w", err)
				s.mu.Unlock()
				break
			}
			s.queue.log.warn("offsets could not be committed to Kafka, trying again", "error", err)
			select {
			case <-s.closing.Done():
			case <-time.After(backoff(failures)):
			}
		}
	}
}

// commit tells the broker how far each partition is done.
func (s *subscription) commit(ctx context.Context) error {
	s.committing.Lock()
	defer s.committing.Unlock()
	offsets := map[int32]kgo.EpochOffset{}
	of := map[int32]*window{}
	s.mu.Lock()
	for p, w := range s.windows {
		if w.next > w.committed {
			offsets[p], of[p] = kgo.EpochOffset{Epoch: w.epoch, Offset: w.next}, w
		}
	}
	s.mu.Unlock()
	if len(offsets) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	var failed error
	s.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{s.queue.place.topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if failed = err; err == nil {
				failed = s.committed(resp, of, offsets)
			}
		})
	return failed
}

// committed notes which partitions the broker has taken.
func (s *subscription) committed(resp *kmsg.OffsetCommitResponse, of map[int32]*window, offsets map[int32]kgo.EpochOffset) error {
	var errs []error
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				errs = append(errs, fmt.Errorf("partition %d: %w", p.Partition, err))
			} else if w := of[p.Partition]; w != nil {
				w.committed = offsets[p.Partition].Offset
			}
		}
	}
	return errors.Join(errs...)
}

// revoked is called before partitions go to another member, which begins where the commit
// ends.
func (s *subscription) revoked(ctx context.Context, _ *kgo.Client, parts map[string][]int32) {
	s.mu.Lock()
	left := s.left
	s.mu.Unlock()
	if !left && len(parts[s.queue.place.topic]) > 0 {
		if err := s.commit(ctx); err != nil {
			s.queue.log.warn("partitions were given up before what is done could be told; it will come again", "error", err)
		}
	}
	s.forget(parts)
}

// lost is called when the group has gone on without this member.
func (s *subscription) lost(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
	s.forget(parts)
}

func (s *subscription) forget(parts map[string][]int32) {
	s.mu.Lock()
	for _, p := range parts[s.queue.place.topic] {
		delete(s.windows, p)
	}
	s.mu.Unlock()
	// A pause outlasts the assignment, and would meet the partition's return.
	s.client.ResumeFetchPartitions(parts)
}
