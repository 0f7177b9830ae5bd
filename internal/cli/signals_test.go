package cli

import (
	"os"
	"syscall"
	"testing"
)

// The first signal ends the context, the second one the process, with the status of the signal.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	for sent, want := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		exits := make(chan int, 1)
		ctx, stop := untilSignal(t.Context(), func(status int) { exits <- status })
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if err := self.Signal(sent); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		select {
		case status := <-exits:
			t.Errorf("%v: got status %d after one signal", sent, status)
		default:
		}
		if err := self.Signal(sent); err != nil {
			t.Fatal(err)
		}
		if got := <-exits; got != want {
			t.Errorf("%v: got status %d, want %d", sent, got, want)
		}
		stop()
	}
}

// Without a signal, stopping leaves nothing behind.
func TestNoSignal(t *testing.T) {
	ctx, stop := untilSignal(t.Context(), func(int) { t.Error("the process would end") })
	if ctx.Err() != nil {
		t.Error("the context has ended")
	}
	stop()
	if ctx.Err() == nil {
		t.Error("the context goes on")
	}
}

// Chinese characters take two places, so that columns stand under one another.
func TestTableKnowsWideCharacters(t *testing.T) {
	var out screenText
	table(&out, [][]string{{"NAME", "N"}, {"水壶", "1"}, {"a\x1b[2Jb", "2"}})
	if got, want := string(out), "NAME    N\n水壶    1\na [2Jb  2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

type screenText []byte

func (s *screenText) Write(b []byte) (int, error) {
	*s = append(*s, b...)
	return len(b), nil
}
