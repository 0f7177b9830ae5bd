package redisstock

import (
	"context"

	"github.com/redis/rueidis"
)

// Eval runs a script that answers with whole numbers, in the stock's Redis but beside
// the stock: its keys must not begin as the stock's do, and all of one call must be
// in one slot. It is for what gateways settle with one another.
func (s *Stock) Eval(ctx context.Context, script string, keys, args []string) ([]int64, error) {
	return rueidis.NewLuaScript(script).Exec(ctx, s.client, keys, args).AsIntSlice()
}
