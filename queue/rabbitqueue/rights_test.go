package rabbitqueue_test

import (
	"strings"
	"testing"

	"seckill/internal/testenv"
	"seckill/queue"
	"seckill/queue/rabbitqueue"
)

// rights are claims about what is missing at the broker: each is one line, without the
// password.
func rights(t *testing.T, broker *testenv.RabbitServer) {
	const owner, user, guest = testenv.RabbitOwner, testenv.RabbitUser, testenv.RabbitGuest
	at := func(user string) string { return broker.URLFor(user, broker.Addr) }
	there, classic := newQueue(""), newQueue("&type=classic")
	open(t, rabbitqueue.Options{URL: at(owner) + there})
	open(t, rabbitqueue.Options{URL: at(owner) + classic})

	for name, c := range map[string]struct{ url, says string }{
		"wrong password":        {strings.Replace(at(owner), "s3cret", "wrong-s3cret", 1) + there, `user "owner" is not let in`},
		"unknown user":          {strings.Replace(at(owner), "owner", "nobody", 1) + there, `user "nobody" is not let in`},
		"unknown vhost":         {strings.Replace(at(owner), "/shop", "/nowhere", 1) + there, `vhost nowhere not found`},
		"forbidden vhost":       {strings.Replace(at(owner), "/shop", "/closed", 1) + there, `user "owner" may not enter the vhost`},
		"may not create":        {at(user) + newQueue(""), `user "user" may not create it`},
		"may not publish":       {at(guest) + there, `user "guest" may not publish`},
		"other type":            {strings.Replace(at(owner)+classic, "classic", "quorum", 1), "not as a durable quorum queue"},
		"nobody listens":        {broker.URLFor(owner, testenv.FreePort(t)) + there, "connection refused"},
		"TLS on the plain port": {strings.Replace(at(owner), "amqp:", "amqps:", 1) + there, "tls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // RabbitMQ takes three seconds to refuse a password.
			q, err := rabbitqueue.Open(t.Context(), rabbitqueue.Options{URL: c.url})
			if err == nil {
				must(t, q.Close())
				t.Fatal("it opened")
			}
			got := err.Error()
			if !strings.Contains(got, c.says) || strings.Contains(got, "\n") {
				t.Errorf("got %q, want one line that says %q", got, c.says)
			}
			if strings.Contains(got, "s3cret") || strings.Contains(got, escaped) {
				t.Errorf("%q shows the password", got)
			}
		})
	}

	// Who may only publish learns at once that it is not to consume.
	t.Run("may not consume", func(t *testing.T) {
		q := open(t, rabbitqueue.Options{URL: at(testenv.RabbitWriter) + there})
		_, err := q.Subscribe(t.Context())
		if err == nil || !strings.Contains(err.Error(), `user "writer" may not consume`) {
			t.Errorf("got %v, want it refused", err)
		}
	})

	// Who may not create queues may use one that is there.
	t.Run("uses what is there", func(t *testing.T) {
		q := open(t, rabbitqueue.Options{URL: at(user) + there})
		must(t, q.Publish(t.Context(), queue.Message{ID: "a"}))
		sub, err := q.Subscribe(t.Context())
		must(t, err)
		if ds, err := sub.Receive(t.Context(), 1); err != nil || ds[0].ID != "a" {
			t.Errorf("got %v, %v, want a", ds, err)
		}
	})
}
