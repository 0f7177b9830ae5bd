package kafkaqueue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seckill/queue"
)

// oldestEvery is how often the oldest message is looked up, at most.
const oldestEvery = time.Second

// oldest remembers the answer to a question that costs a fetch for each partition.
type oldest struct {
	mu    sync.Mutex
	at    time.Time
	asked time.Time
}

// Backlog counts messages: the brokers do not look into them. What is acknowledged behind
// one that is not counts, too.
func (q *Queue) Backlog(ctx context.Context) (queue.Backlog, error) {
	// In this order, what is committed is never ahead of the end.
	done, err := q.admin.FetchOffsetsForTopics(ctx, q.place.group, q.place.topic)
	if err != nil {
		return queue.Backlog{}, fmt.Errorf("backlog: what is done: %w", err)
	}
	starts, err := q.admin.ListStartOffsets(ctx, q.place.topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return queue.Backlog{}, fmt.Errorf("backlog: where partitions begin: %w", err)
	}
	ends, err := q.admin.ListEndOffsets(ctx, q.place.topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return queue.Backlog{}, fmt.Errorf("backlog: where partitions end: %w", err)
	}
	var b queue.Backlog
	first := map[int32]int64{} // The oldest message that waits, in each partition where one does.
	for p, end := range ends[q.place.topic] {
		from := starts[q.place.topic][p].Offset
		if d, ok := done.Lookup(q.place.topic, p); ok {
			if d.Err != nil {
				return queue.Backlog{}, fmt.Errorf("backlog: what is done in partition %d: %w", p, d.Err)
			}
			from = max(from, d.At) // It is -1 where nothing is done yet.
		}
		if waiting := end.Offset - from; waiting > 0 {
			b.Waiting += waiting
			first[p] = from
		}
	}
	b.Oldest = q.oldest.find(first, func() time.Time { return q.oldestOf(ctx, first) })
	return b, nil
}

func (o *oldest) find(first map[int32]int64, look func() time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(first) == 0 {
		o.at, o.asked = time.Time{}, time.Time{}
		return time.Time{}
	}
	if time.Since(o.asked) >= oldestEvery {
		o.at = look()
		o.asked = time.Now()
	}
	return o.at
}

// oldestOf reads the batch that each of these offsets is in, and takes its time. Zero is
// "unknown": nobody waits for this answer, and a broker that has none may have other
// troubles.
func (q *Queue) oldestOf(ctx context.Context, first map[int32]int64) time.Time {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	md, err := q.admin.Metadata(ctx, q.place.topic)
	if err != nil {
		return time.Time{}
	}
	t := md.Topics[q.place.topic]
	var least time.Time
	for p, offset := range first {
		at, err := q.timeOf(ctx, t, p, offset)
		if err != nil {
			return time.Time{}
		}
		if least.IsZero() || at.Before(least) {
			least = at
		}
	}
	return least
}

func (q *Queue) timeOf(ctx context.Context, t kadm.TopicDetail, partition int32, offset int64) (time.Time, error) {
	req := kmsg.NewFetchRequest()
	req.MaxBytes = 1 // A broker sends one batch, however large, and not two.
	req.SessionEpoch = -1
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = partition, offset, 1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = t.Topic, t.ID
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)

	answer, err := q.client.Broker(int(t.Partitions[partition].Leader)).RetriableRequest(ctx, &req)
	if err != nil {
		return time.Time{}, err
	}
	resp, ok := answer.(*kmsg.FetchResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return time.Time{}, fmt.Errorf("an answer to another question: %T", answer)
	}
	got := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		return time.Time{}, err
	}
	var batch kmsg.RecordBatch
	if err := batch.ReadFrom(got.RecordBatches); err != nil {
		return time.Time{}, fmt.Errorf("no whole batch: %w", err)
	}
	if ms := batch.FirstTimestamp; batch.Attributes&(1<<3) == 0 {
		return time.UnixMilli(ms).UTC(), nil
	}
	return time.UnixMilli(batch.MaxTimestamp).UTC(), nil // The broker's own time, one for the batch.
}
