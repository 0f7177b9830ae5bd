package redisstock

import (
	"context"
	"errors"
	"fmt"
)

// boundKey is a string: the identity of the database that the stock belongs to.
func (s *Stock) boundKey() string { return "{" + s.prefix + "}:database" }

// Bind implements [stock.Stock]. What is lost with Redis is lost with the reservations that
// it is about.
func (s *Stock) Bind(ctx context.Context, database string) (string, error) {
	if s.ctx.Err() != nil {
		return "", ErrClosed
	}
	if database == "" {
		return "", errors.New("bind the stock: the database has no identity")
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	// Whether this or another call set it, the second command tells.
	set := s.client.B().Set().Key(s.boundKey()).Value(database).Nx().Build()
	get := s.client.B().Get().Key(s.boundKey()).Build()
	results := s.client.DoMulti(ctx, set, get)
	bound, err := results[1].ToString()
	if err != nil {
		return "", fmt.Errorf("bind the stock: %w", errors.Join(results[0].NonRedisError(), err))
	}
	return bound, nil
}
