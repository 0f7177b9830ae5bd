package rocketqueue_test

import (
	"strings"
	"testing"

	"seckill/internal/testenv"
	"seckill/queue/rocketqueue"
)

// A broker with access control lets in who signs with the right secret, and nobody else;
// what it says to the others is one line without the secret.
func TestAccessControl(t *testing.T) {
	server := testenv.NewRocketMQ(t)
	server.Properties = []string{
		"authenticationEnabled=true",
		"authenticationProvider=org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
		"authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider",
		`initAuthenticationUser={"username":"access","password":"right-secret"}`,
		`innerClientAuthenticationCredentials={"accessKey":"access","secretKey":"right-secret"}`,
	}
	server.Start(t)
	url := func(secret string) string {
		return strings.Replace(topicURL(server), "://", "://access:"+secret+"@", 1)
	}
	q := open(t, url("right-secret"))
	must(t, q.Publish(patience(t), numbered(0, 10)...))
	sub := subscribe(t, q)
	must(t, sub.Ack(patience(t), receive(t, sub, 10)...))
	_, err := rocketqueue.Open(patience(t), rocketqueue.Options{URL: url("wrong-secret")})
	if err == nil || !strings.Contains(err.Error(), "create topic") || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "wrong-secret") {
		t.Fatalf("got %v, want one line that says what could not be done", err)
	}
	t.Log(err)
}
