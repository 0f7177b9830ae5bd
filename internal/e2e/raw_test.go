package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"
)

// rawPurchase buys one unit on a connection of its own. No ticket and no error means that
// there was no connection to be had; an error, that the request was sent and not
// answered in full, or refused.
func rawPurchase(addr string, activity int64, buyer string) (ticket string, err error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return "", nil
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(15 * time.Second))
	const body = `{"quantity":1}`
	_, err = fmt.Fprintf(conn, "POST /v1/activities/%d/purchases HTTP/1.1\r\nHost: x\r\nX-User-Id: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		activity, buyer, len(body), body)
	if err != nil {
		return "", nil // Closed before it was taken: the connection waited in the backlog.
	}
	reader := bufio.NewReader(conn)
	if _, err := reader.Peek(1); err != nil {
		return "", unanswered(err)
	}
	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		return "", fmt.Errorf("half an answer: %w", err)
	}
	defer resp.Body.Close()
	whole, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", fmt.Errorf("half a body: %w", err)
	}
	if resp.StatusCode != http.StatusAccepted {
		return "", fmt.Errorf("%d %s", resp.StatusCode, whole)
	}
	var got struct{ Ticket string }
	return got.Ticket, json.Unmarshal(whole, &got)
}

// unanswered tells a connection that the system reset before the server took it (it
// waited in the listener's backlog) from one that the server took and dropped.
func unanswered(err error) error {
	if errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	return fmt.Errorf("no answer: %w", err)
}
