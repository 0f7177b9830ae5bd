package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"time"

	"seckill/internal/auth"
	"seckill/internal/config"
	"seckill/internal/sqlstore"
	"seckill/queue"
	"seckill/queue/kafkaqueue"
	"seckill/queue/rabbitqueue"
	"seckill/queue/rocketqueue"
	"seckill/stock"
	"seckill/stock/embedded"
	"seckill/stock/redisstock"
)

// openStock chooses the driver by the setting. There is no registry of drivers: this is it.
func openStock(ctx context.Context, c *config.Config, log *slog.Logger) (stock.Stock, error) {
	if c.Stock.Engine == config.Redis {
		form := "stream"
		if c.Queue.Engine == config.RedisList {
			form = "list"
		}
		redis, err := redisstock.Open(ctx, redisstock.Options{URL: c.Stock.URL.Reveal(), Outbox: form, KeepFor: max(c.Retention, time.Minute), Log: log})
		if err != nil {
			return nil, fmt.Errorf("open the stock in Redis: %w", err)
		}
		return redis, nil
	}
	engine, err := embedded.Open(ctx, embedded.Options{Path: filepath.Join(c.Data, "stock.db"), Log: log})
	if err != nil {
		return nil, fmt.Errorf("open the embedded stock (if its file is damaged, restore it, or move it away: it is then "+
			"rebuilt from the database, and reservations that had no order yet are lost): %w", err)
	}
	return engine, nil
}

// openBroker opens the queue if that is a server of its own; else it is nil, and the stock's outbox is the queue.
func openBroker(ctx context.Context, c *config.Config, log *slog.Logger) (broker queue.Queue, err error) {
	url := c.Queue.URL.Reveal()
	switch c.Queue.Engine {
	case config.Kafka:
		broker, err = kafkaqueue.Open(ctx, kafkaqueue.Options{URL: url, Log: log})
	case config.RabbitMQ:
		broker, err = rabbitqueue.Open(ctx, rabbitqueue.Options{URL: url, Log: log})
	case config.RocketMQ:
		broker, err = rocketqueue.Open(ctx, rocketqueue.Options{URL: url, Log: log})
	}
	if err != nil {
		return nil, fmt.Errorf("open the queue: %w", err)
	}
	return broker, nil
}

// openDatabase opens what the setting names.
func openDatabase(ctx context.Context, c *config.Config) (*sqlstore.DB, error) {
	d := c.SQL()
	address := "sqlite:" + d.Path
	if d.Engine == config.MySQL {
		u := url.URL{Scheme: "mysql", Host: d.Addr, Path: "/" + d.Name, User: url.UserPassword(d.User, d.Password.Reveal())}
		address = u.String()
	}
	database, err := sqlstore.Open(ctx, address, sqlstore.Options{})
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return database, nil
}

// openAuth makes what tells buyers apart.
func openAuth(c *config.Config, log *slog.Logger) (auth.Authenticator, error) {
	o := auth.Options{Proxies: auth.Proxies(c.TrustedProxies), Issuer: c.AuthIssuer, Audiences: c.AuthAudience, Log: log}
	switch c.Auth.Kind {
	case config.AuthOpen:
		return auth.Open(), nil
	case config.AuthHeader:
		return auth.Header(c.Auth.Header, o)
	case config.AuthJWKS:
		return auth.JWKS(c.Auth.URL, o)
	case config.AuthHS256:
		return auth.HS256(c.Auth.Secret.Reveal(), o)
	}
	return nil, fmt.Errorf("auth %q is not known", c.Auth.Kind)
}

// Migrate brings the schema of the database that the settings name up to date.
func Migrate(ctx context.Context, c config.Config) error {
	database, err := openDatabase(ctx, &c)
	if err != nil {
		return err
	}
	return errors.Join(database.Migrate(ctx), database.Close())
}
