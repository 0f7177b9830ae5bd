package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"seckill/internal/config"
)

func testConfig(t *testing.T) config.Config {
	t.Helper()
	c := config.Default()
	c.Listen, c.AdminListen, c.Data = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	c.Auth.Kind, c.AdminToken = config.AuthOpen, config.NewSecret("token")
	return c
}

// asker asks a program over HTTP, with one header, and returns status and body.
func asker(t *testing.T) func(method, url, header, value, body string) (int, string) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return func(method, url, header, value, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header, value)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
}

// The program opens, sells a unit, and stops without an error, with nothing left behind.
func TestRun(t *testing.T) {
	a, err := New(t.Context(), testConfig(t), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	ask := asker(t)
	now := time.Now().UTC()
	status, body := ask("POST", "http://"+a.AdminAddr()+"/admin/v1/activities", "Authorization", "Bearer token",
		fmt.Sprintf(`{"name":"x","stock":1,"starts_at":%q,"ends_at":%q}`, now.Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339)))
	if status != http.StatusCreated {
		t.Fatalf("create: %d %s", status, body)
	}
	if status, body = ask("POST", "http://"+a.PublicAddr()+"/v1/activities/1/purchases", "X-User-Id", "me", ""); status != http.StatusAccepted {
		t.Errorf("buy: %d %s", status, body)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("run: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the program does not stop")
	}
}
