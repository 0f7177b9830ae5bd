package kafkaqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	partitionsDefault = 8
	batchMaxDefault   = 1_000_012 // Kafka's own.
	// retentionLeast is the shortest time for which a topic has to keep messages that
	// nobody has read: a database may be away for that long.
	retentionLeast = time.Hour
)

// check makes sure of the topic, the rights and the group. Each thing that is wrong is one
// line that says what to do.
func (q *Queue) check(ctx context.Context) error {
	t, err := q.topic(ctx)
	if err != nil {
		return err
	}
	if err := q.checkTopic(t); err != nil {
		return err
	}
	if err := q.checkSettings(ctx, len(t.Partitions[0].Replicas)); err != nil {
		return err
	}
	return q.checkGroup(ctx)
}

// topic looks the topic up, and creates it if it is not there.
func (q *Queue) topic(ctx context.Context) (kadm.TopicDetail, error) {
	created := false
	for failures := 1; ; failures++ {
		md, err := q.admin.Metadata(kadm.WithAuthorizedOps(ctx), q.place.topic)
		if errors.Is(err, context.DeadlineExceeded) {
			return kadm.TopicDetail{}, fmt.Errorf("kafka at %s does not answer; so it looks, too, when it speaks no TLS and the URL wants it, or knows no login: %w",
				strings.Join(q.place.brokers, ","), err)
		}
		if err != nil && !errors.Is(err, kerr.TopicAuthorizationFailed) {
			return kadm.TopicDetail{}, fmt.Errorf("kafka at %s does not answer: %w", strings.Join(q.place.brokers, ","), err)
		}
		t := md.Topics[q.place.topic]
		if err != nil {
			t.Err = err
		}
		switch {
		case t.Err == nil && len(t.Partitions) > 0 && !slices.ContainsFunc(t.Partitions.Sorted(), leaderless):
			return t, nil
		case errors.Is(t.Err, kerr.UnknownTopicOrPartition) && !created:
			if err := q.create(ctx); err != nil {
				return t, err
			}
			created = true
		case errors.Is(t.Err, kerr.TopicAuthorizationFailed):
			return t, fmt.Errorf("kafka topic %q: the right DESCRIBE is missing, or CREATE if it is not there yet: %w", q.place.topic, t.Err)
		case t.Err != nil && !kerr.IsRetriable(t.Err):
			return t, fmt.Errorf("kafka topic %q: %w", q.place.topic, t.Err)
		}
		// It was created a moment ago, or a leader is being elected.
		select {
		case <-ctx.Done():
			return t, fmt.Errorf("kafka topic %q has partitions without a leader: %w", q.place.topic, errors.Join(t.Err, ctx.Err()))
		case <-time.After(backoff(failures)):
		}
	}
}

func leaderless(p kadm.PartitionDetail) bool { return p.Leader < 0 }

func (q *Queue) create(ctx context.Context) error {
	partitions, replicas := q.place.partitions, q.place.replicas
	settings := map[string]*string{"cleanup.policy": new("delete")}
	if partitions == 0 {
		partitions = partitionsDefault
	}
	switch {
	case replicas == 0:
		replicas = -1 // As the brokers are set.
	case replicas >= 3:
		settings["min.insync.replicas"] = new("2")
	}
	_, err := q.admin.CreateTopic(ctx, partitions, replicas, settings, q.place.topic)
	// Another process may have been faster.
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("kafka topic %q is not there and cannot be created; create it, or give this user the right to: %w", q.place.topic, err)
	}
	return nil
}

func (q *Queue) checkTopic(t kadm.TopicDetail) error {
	for _, op := range []kadm.ACLOperation{kmsg.ACLOperationWrite, kmsg.ACLOperationRead} {
		if missing(t.AuthorizedOperations, op) {
			return fmt.Errorf("kafka topic %q: the right %v is missing", t.Topic, op)
		}
	}
	if n := len(t.Partitions); n < int(q.place.partitions) {
		return fmt.Errorf("kafka topic %q has %d partitions, and the URL asks for %d: add some, or ask for fewer", t.Topic, n, q.place.partitions)
	}
	for _, p := range t.Partitions {
		if n := len(p.Replicas); n < int(q.place.replicas) {
			return fmt.Errorf("kafka topic %q: partition %d has %d replicas, and the URL asks for %d: add some, or ask for fewer",
				t.Topic, p.Partition, n, q.place.replicas)
		}
	}
	return nil
}

// missing tells whether a list of rights lacks one. Brokers without access control, and
// old ones, give no list.
func missing(rights []kadm.ACLOperation, op kadm.ACLOperation) bool {
	return len(rights) > 0 && !slices.Contains(rights, op) && !slices.Contains(rights, kmsg.ACLOperationAll)
}

// checkSettings refuses a topic that drops messages nobody has read, or that cannot be
// written to.
func (q *Queue) checkSettings(ctx context.Context, replicas int) error {
	all, err := q.admin.DescribeTopicConfigs(ctx, q.place.topic)
	var config kadm.ResourceConfig
	if err == nil {
		config, err = all.On(q.place.topic, nil)
	}
	if err == nil {
		err = config.Err
	}
	if err != nil {
		q.log.warn("settings of the Kafka topic cannot be read, and go unchecked", "topic", q.place.topic, "error", err)
		return nil
	}
	settings := map[string]string{}
	for _, c := range config.Configs {
		settings[c.Key] = c.MaybeValue()
	}
	if strings.Contains(settings["cleanup.policy"], "compact") {
		return fmt.Errorf("kafka topic %q is compacted, which drops messages nobody has read: set cleanup.policy=delete", q.place.topic)
	}
	if ms, err := strconv.ParseInt(settings["retention.ms"], 10, 64); err == nil && ms >= 0 && ms < retentionLeast.Milliseconds() {
		return fmt.Errorf("kafka topic %q keeps messages for %d ms only, read or not: set retention.ms to %d or more",
			q.place.topic, ms, retentionLeast.Milliseconds())
	}
	if n, err := strconv.Atoi(settings["max.message.bytes"]); err == nil && n > 0 && n < batchMaxDefault {
		q.batchMax.Store(int32(n)) //nolint:gosec // It is less than a million.
	}
	switch n, err := strconv.Atoi(settings["min.insync.replicas"]); {
	case err == nil && n > replicas:
		return fmt.Errorf("kafka topic %q can never be written to: it has %d replicas, and min.insync.replicas is %d", q.place.topic, replicas, n)
	case err == nil && n == 1 && replicas > 1:
		q.log.warn("the Kafka topic confirms messages that one broker alone has: set min.insync.replicas=2", "topic", q.place.topic)
	}
	return nil
}

// checkGroup asks the group's coordinator, which is also the first broker here that has to
// be reached at the address it advertises.
func (q *Queue) checkGroup(ctx context.Context) error {
	groups, err := q.admin.DescribeGroups(ctx, q.place.group)
	for failures := 1; errors.Is(err, kerr.CoordinatorNotAvailable) && ctx.Err() == nil; failures++ {
		// The first group ever makes the brokers create the topic that groups are kept in.
		select {
		case <-ctx.Done():
		case <-time.After(backoff(failures)):
			groups, err = q.admin.DescribeGroups(ctx, q.place.group)
		}
	}
	if errors.Is(err, kerr.GroupAuthorizationFailed) {
		return fmt.Errorf("kafka group %q: the right READ is missing", q.place.group)
	}
	if err != nil {
		return fmt.Errorf("kafka group %q: its coordinator does not answer: %w", q.place.group, err)
	}
	g := groups[q.place.group]
	switch {
	case errors.Is(g.Err, kerr.GroupAuthorizationFailed) || missing(g.AuthorizedOperations, kmsg.ACLOperationRead):
		return fmt.Errorf("kafka group %q: the right READ is missing", q.place.group)
	case g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound):
		return fmt.Errorf("kafka group %q: %w", q.place.group, g.Err)
	case g.ProtocolType != "" && g.ProtocolType != "consumer":
		return fmt.Errorf("kafka group %q is used by something else, of type %q: name another with ?group=", q.place.group, g.ProtocolType)
	}
	return nil
}
