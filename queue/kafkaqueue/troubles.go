package kafkaqueue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// warnEvery is how often the same trouble is told, at most. A broker that is away is
// noticed many times a second, by each client.
const warnEvery = 10 * time.Second

// troubles tells the log of what mends itself. It is also the client library's log, of
// which only complaints are handed on: the rest is of no use to an operator.
type troubles struct {
	log *slog.Logger

	mu   sync.Mutex
	told map[string]time.Time
}

func newTroubles(log *slog.Logger) *troubles {
	return &troubles{log: log, told: map[string]time.Time{}}
}

func (t *troubles) warn(said string, args ...any) {
	if t.again(said) {
		t.log.Log(context.Background(), slog.LevelWarn, said, args...) //nolint:sloglint // What is said is one of a few constants.
	}
}

func (t *troubles) again(said string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.told[said]) < warnEvery {
		return false
	}
	if len(t.told) >= 100 { // There are fewer texts than that.
		clear(t.told)
	}
	t.told[said] = now
	return true
}

// Level implements [kgo.Logger].
func (*troubles) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log implements [kgo.Logger].
func (t *troubles) Log(level kgo.LogLevel, said string, keyvals ...any) {
	if level == kgo.LogLevelError || level == kgo.LogLevelWarn {
		t.warn("kafka client: "+said, slog.Group("client", keyvals...))
	}
}
