package cli

import (
	"testing"

	"seckill"
)

// What is found and not repaired makes reconcile fail, except for what waits for an operator
// or is on its way.
func TestWhatIsWrong(t *testing.T) {
	for kind, want := range map[string]bool{
		"oversold": true, "row_drift": true, "lost_unit": true, "stock_drift": true, "unknown_order": true, "missing_order": true,
		"stale_order": true, "unsettled": true, "orphan_reservation": true, "not_loaded": true, "in_motion": true,
		"dead_letters": false, "unfinished_todo": false, "unfinished_restock": false,
	} {
		if got := wrong(seckill.Finding{Kind: kind}); got != want {
			t.Errorf("%s: got %v", kind, got)
		}
		if wrong(seckill.Finding{Kind: kind, Repaired: true}) {
			t.Errorf("%s is wrong though it was repaired", kind)
		}
	}
}
