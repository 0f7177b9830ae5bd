package config_test

import (
	"testing"

	"seckill/internal/config"
)

// Where the messages are does not depend on hosts, users or how the queue is used.
func TestPlaceOfAQueue(t *testing.T) {
	for _, c := range []struct{ engine, url, want string }{
		{config.Kafka, "kafka://a:1,b:2/orders", "kafka:orders"},
		{config.Kafka, "kafkas://u:p@c:3/orders?tls=1&group=g", "kafka:orders group g"},
		{config.RabbitMQ, "amqp://u:p@h:1/shop?queue=q&prefetch=9", "amqp:shop queue q"},
		{config.RabbitMQ, "amqp://u:p@h:1?queue=q", "amqp: queue q"},
		{config.RocketMQ, "rocketmq://h:1/t", "rocketmq:t"},
		{config.RedisList, "", "redis-list"},
	} {
		if got := (config.Queue{Engine: c.engine, URL: config.NewSecret(c.url)}).Place(); got != c.want {
			t.Errorf("%s: got %q, want %q", c.url, got, c.want)
		}
	}
}
