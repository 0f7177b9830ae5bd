package cli

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// A list of buyers may come by the standard input; one that is too large, or ends early, is refused here.
func TestBuyersFromStandardInput(t *testing.T) {
	if got, err := readBuyers(strings.NewReader("ann\n"), "-"); err != nil || string(got) != "ann\n" {
		t.Errorf("got %q and %v", got, err)
	}
	var m *mistake
	if _, err := readBuyers(io.LimitReader(zeros{}, audienceBytesMax+1), "-"); !errors.As(err, &m) || m.wrong != "is too large" {
		t.Errorf("too large: %v", err)
	}
	if got, err := readBuyers(io.LimitReader(zeros{}, audienceBytesMax), "-"); err != nil || len(got) != audienceBytesMax {
		t.Errorf("just fitting: %d bytes and %v", len(got), err)
	}
	if _, err := readBuyers(io.MultiReader(strings.NewReader("ann\n"), broken{}), "-"); !errors.As(err, &m) {
		t.Errorf("broken off: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
