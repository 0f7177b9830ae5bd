package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// untilSignal ends the context at the first SIGINT or SIGTERM, so that what is under way
// can finish. The second one calls exit at once, with the status that shells give it.
func untilSignal(ctx context.Context, exit func(int)) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ended := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-signals:
			cancel()
		case <-ended:
			return
		}
		select {
		case s := <-signals:
			status := 130
			if s == syscall.SIGTERM {
				status = 143
			}
			exit(status)
		case <-ended:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(ended)
		<-gone
		cancel()
	}
}
