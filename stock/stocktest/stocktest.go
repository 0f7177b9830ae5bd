// Package stocktest is the conformance suite of stock drivers: one short function per
// claim of the contract. It asserts what package stock promises and nothing else, so
// that one suite fits a stock in memory and a Redis Cluster. The tests of the
// drivers use it; it is no part of the product.
package stocktest

import (
	"testing"
	"time"

	"seckill/stock"
)

// Harness is one stock, and what can be done with it from outside. Each claim gets a
// stock of its own.
type Harness struct {
	// Open returns a handle on one and the same stock at each call. A claim closes a
	// handle before it opens the next.
	Open func(t *testing.T) stock.Stock
	// Durable says that what was answered outlives the handle.
	Durable bool
	// Now is the stock's clock. Nil: the machine's, give or take ClockError.
	Now func() time.Time
	// Advance moves the stock's clock on. Nil: it goes by itself.
	Advance func(d time.Duration)
	// ClockError is how far the stock's clock may be from Now. Default 0.
	ClockError time.Duration
	// Patience is how long something that must happen may take. Default 10 s.
	Patience time.Duration
}

// claims are all there are, by name.
func claims() map[string]func(*kit) {
	return map[string]func(*kit){
		// Who gets a unit.
		"NeverOversells":                neverOversells,
		"SellsEveryUnit":                sellsEveryUnit,
		"OneKeyOneTicket":               oneKeyOneTicket,
		"OneKeyAtOnceOneUnit":           oneKeyAtOnceOneUnit,
		"SameTicketSameAnswer":          sameTicketSameAnswer,
		"KeyWithAnotherQuantity":        keyWithAnotherQuantity,
		"TicketWithAnotherKey":          ticketWithAnotherKey,
		"KeysAreTheBuyersOwn":           keysAreTheBuyersOwn,
		"KnownWhateverTheTime":          knownWhateverTheTime,
		"LimitPerBuyer":                 limitPerBuyer,
		"LimitAtOnce":                   limitAtOnce,
		"AlreadyPurchasedBeforeSoldOut": alreadyPurchasedBeforeSoldOut,
		"ShortTakesNothing":             shortTakesNothing,
		"WindowByTheStocksClock":        windowByTheStocksClock,
		"OpensByItself":                 opensByItself,
		"StaleEpoch":                    staleEpoch,
		"NotLoadedIsNotSoldOut":         notLoadedIsNotSoldOut,
		"RefusedLeaveNoTrace":           refusedLeaveNoTrace,
		"SlotsLowestFree":               slotsLowestFree,
		"AnswersInOrder":                answersInOrder,

		// What becomes of it.
		"ReleaseGivesBackOnce":      releaseGivesBackOnce,
		"ReleaseAtOnceOnce":         releaseAtOnceOnce,
		"SettleAnyOrder":            settleAnyOrder,
		"PaidIsNeverReleased":       paidIsNeverReleased,
		"FailedStaysFailed":         failedStaysFailed,
		"WrittenOffDoesNotComeBack": writtenOffDoesNotComeBack,
		"BuyAgainAfterCancel":       buyAgainAfterCancel,
		"OutcomeFollows":            outcomeFollows,
		"OutcomeToItsOwnerOnly":     outcomeToItsOwnerOnly,
		"TellsUnknownTickets":       tellsUnknownTickets,

		// The life of a run.
		"RestockOnce":                    restockOnce,
		"NegativeRestockAtMostAvailable": negativeRestockAtMostAvailable,
		"PauseAndClose":                  pauseAndClose,
		"NotLoadedIsAnError":             notLoadedIsAnError,
		"LoadReplacesAtomically":         loadReplacesAtomically,
		"LoadSameEpochChangesNothing":    loadSameEpochChangesNothing,
		"RebuildKeepsBuyers":             rebuildKeepsBuyers,
		"RunsAreApart":                   runsAreApart,
		"DropForgets":                    dropForgets,
		"LevelAddsUp":                    levelAddsUp,
		"ReturnsRise":                    returnsRise,
		"QueuedPages":                    queuedPages,
		"QueuedPagesWhileSettling":       queuedPagesWhileSettling,

		// What others hear of it.
		"OutboxCarriesEach":         outboxCarriesEach,
		"OutboxHoldsUntilAcked":     outboxHoldsUntilAcked,
		"OutboxComesBackAfterClose": outboxComesBackAfterClose,
		"OutboxIsShared":            outboxIsShared,
		"OutboxWakes":               outboxWakes,
		"OutboxCancelLosesNothing":  outboxCancelLosesNothing,
		"BacklogCounts":             backlogCounts,
		"WatchTells":                watchTells,

		// Whose it is.
		"BoundOnce": boundOnce,

		// Everything together.
		"DurableAcrossReopen": durableAcrossReopen,
		"AgreesWithModel":     agreesWithModel,
	}
}

// Run checks every claim.
func Run(t *testing.T, newStock func(t *testing.T) Harness) {
	for name, claim := range claims() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim(&kit{T: t, newStock: newStock})
		})
	}
}

// Fuzz lets the fuzzer choose the operations of AgreesWithModel.
func Fuzz(f *testing.F, newStock func(t *testing.T) Harness) {
	f.Fuzz(func(t *testing.T, data []byte) { fuzzModel(t, data, newStock) })
}
