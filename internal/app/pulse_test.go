package app

import (
	"context"
	"testing"

	"seckill"
	"seckill/stock"
	"seckill/stock/redisstock"
)

// The keeper asks a stock whether it may be an older one only if it can tell: the one in Redis can,
// and whoever takes that from it has to hear of it here.
func TestTheRedisStockCanTellWhetherItIsOlder(t *testing.T) {
	var s stock.Stock = &redisstock.Stock{}
	if _, ok := s.(interface {
		Pulse(ctx context.Context, run seckill.RunID, epoch int64) (beats []int64, strange string, err error)
		Trust(ctx context.Context, run seckill.RunID, epoch int64) error
	}); !ok {
		t.Error("the stock in Redis has no pulse: internal/activity cannot find a replica that lags")
	}
}
