package rocketqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// messageQueue is one of the queues that a topic consists of.
type messageQueue struct {
	broker string
	id     int
}

func byBrokerAndID(a, b messageQueue) int {
	return cmp.Or(strings.Compare(a.broker, b.broker), cmp.Compare(a.id, b.id))
}

// fields are what most questions about a queue say.
func (m messageQueue) fields(group, topic string) map[string]string {
	return map[string]string{
		"consumerGroup": group, "topic": topic, "queueId": strconv.Itoa(m.id), "bname": m.broker, "brokerName": m.broker,
	}
}

// route is where a topic is.
type route struct {
	masters  map[string]string // The address of each broker, by name.
	readable []messageQueue    // Sorted.
	writable []messageQueue    // Sorted.
}

// brokers are the names of those that have a part of the topic, sorted.
func (r route) brokers() []string { return slices.Sorted(maps.Keys(r.masters)) }

// cluster speaks with the servers, on one connection to each.
type cluster struct {
	address
	told func(code int)

	mu     sync.Mutex
	closed bool
	conns  map[string]*conn
	known  route     // The last that was heard.
	heard  time.Time // When.
}

// newCluster begins with what somebody else knows of the topic, if anything.
func newCluster(a address, known route, told func(int)) *cluster {
	return &cluster{address: a, told: told, conns: map[string]*conn{}, known: known}
}

var errClosed = errors.New("closed")

func (c *cluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conn := range c.conns {
		conn.close(errClosed)
	}
}

// conn finds or makes the connection to a server. Two that want the same at once may both
// dial; one of the two is kept.
func (c *cluster) conn(ctx context.Context, addr string) (*conn, error) {
	c.mu.Lock()
	known := c.conns[addr]
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if known != nil && known.broken() == nil {
		return known, nil
	}
	made, err := dial(ctx, addr, c.keys, c.told)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		made.close(errClosed)
		return nil, errClosed
	}
	if known := c.conns[addr]; known != nil && known.broken() == nil {
		made.close(errors.New("not needed"))
		return known, nil
	}
	c.conns[addr] = made
	return made, nil
}

func (c *cluster) call(ctx context.Context, addr string, code int, fields map[string]string, body []byte) (frame, error) {
	conn, err := c.conn(ctx, addr)
	if err != nil {
		return frame{}, err
	}
	return conn.call(ctx, code, fields, body, 0)
}

// askNames asks one name server after the other until one answers.
func (c *cluster) askNames(ctx context.Context, code int, fields map[string]string) (frame, error) {
	var last error
	for _, server := range c.servers {
		f, err := c.call(ctx, server, code, fields, nil)
		if err == nil {
			return f, nil
		}
		last = fmt.Errorf("name server %s: %w", server, err)
	}
	return frame{}, last
}

// bareKey finds the numbers that older servers write as names in JSON without quotes.
var bareKey = regexp.MustCompile(`([{,])(\d+):`)

func decode(body []byte, into any) error {
	return json.Unmarshal(bareKey.ReplaceAll(body, []byte(`$1"$2":`)), into)
}

type brokerData struct {
	Cluster string            `json:"cluster"`
	Name    string            `json:"brokerName"`
	Addrs   map[string]string `json:"brokerAddrs"` // By number; the master has 0.
}

const (
	masterID      = "0"
	defaultTopic  = "TBW102" // What brokers call the pattern of topics that they make by themselves.
	producerGroup = "seckill"
)

// routeAge is how long an answer of the name server is good.
const routeAge = 10 * time.Second

// route tells where the topic is. What was known stays if the name server is away, or does
// not know of a broker that has just come back.
func (c *cluster) route(ctx context.Context) (route, error) {
	known, heard := c.lastRoute()
	if time.Since(heard) < routeAge {
		return known, nil
	}
	fresh, err := c.askRoute(ctx)
	if err != nil && len(known.masters) > 0 && ctx.Err() == nil {
		return known, nil
	}
	return fresh, err
}

func (c *cluster) lastRoute() (route, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known, c.heard
}

// master is the address of a broker that has a part of the topic.
func (c *cluster) master(broker string) (string, error) {
	r, _ := c.lastRoute()
	if addr := r.masters[broker]; addr != "" {
		return addr, nil
	}
	return "", fmt.Errorf("broker %s is not known any more", broker)
}

// doubtRoute has the next call of route ask again.
func (c *cluster) doubtRoute() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = time.Time{}
}

// askRoute asks where the topic is. A refusal with saidNoTopic means that it is nowhere.
func (c *cluster) askRoute(ctx context.Context) (route, error) {
	f, err := c.askNames(ctx, askRoute, map[string]string{"topic": c.topic, "acceptStandardJsonOnly": "true"})
	if err == nil {
		err = f.expect(saidOK)
	}
	if err != nil {
		return route{}, fmt.Errorf("where topic %s is: %w", c.topic, err)
	}
	var data struct {
		Queues []struct {
			Broker string `json:"brokerName"`
			Perm   int    `json:"perm"`
			Read   int    `json:"readQueueNums"`
			Write  int    `json:"writeQueueNums"`
		} `json:"queueDatas"`
		Brokers []brokerData `json:"brokerDatas"`
	}
	if err := decode(f.body, &data); err != nil {
		return route{}, fmt.Errorf("where topic %s is: %w", c.topic, err)
	}
	const mayRead, mayWrite = 4, 2
	r := route{masters: map[string]string{}}
	for _, b := range data.Brokers {
		if addr := b.Addrs[masterID]; addr != "" {
			r.masters[b.Name] = addr
		}
	}
	for _, q := range data.Queues {
		if r.masters[q.Broker] == "" {
			continue
		}
		if q.Perm&mayRead != 0 {
			r.readable = appendQueues(r.readable, q.Broker, q.Read)
		}
		if q.Perm&mayWrite != 0 {
			r.writable = appendQueues(r.writable, q.Broker, q.Write)
		}
	}
	slices.SortFunc(r.readable, byBrokerAndID)
	slices.SortFunc(r.writable, byBrokerAndID)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.heard = r, time.Now()
	return r, nil
}

func appendQueues(all []messageQueue, broker string, n int) []messageQueue {
	for id := range n {
		all = append(all, messageQueue{broker, id})
	}
	return all
}

// ensureTopic finds the topic, or makes it where that is allowed, and checks that it can be
// written and read.
func (c *cluster) ensureTopic(ctx context.Context) (route, error) {
	r, err := c.askRoute(ctx)
	if wasRefused(err, saidNoTopic) {
		if c.queues == 0 {
			return route{}, fmt.Errorf("topic %s does not exist, and the URL's queues=0 forbids making it", c.topic)
		}
		r, err = c.makeTopic(ctx)
	}
	switch {
	case err != nil:
		return route{}, err
	case len(r.writable) == 0:
		return route{}, fmt.Errorf("topic %s cannot be written: no broker that has it is a master with that permission", c.topic)
	case len(r.readable) == 0:
		return route{}, fmt.Errorf("topic %s cannot be read: no broker that has it is a master with that permission", c.topic)
	}
	return r, nil
}

// makeTopic makes the topic on every master of the cluster, and waits until the name server
// knows of it.
func (c *cluster) makeTopic(ctx context.Context) (route, error) {
	masters, err := c.masters(ctx)
	if err != nil {
		return route{}, fmt.Errorf("create topic %s: %w", c.topic, err)
	}
	n := strconv.Itoa(c.queues)
	for _, addr := range masters {
		f, err := c.call(ctx, addr, askCreateTopic, map[string]string{
			"topic": c.topic, "defaultTopic": defaultTopic, "readQueueNums": n, "writeQueueNums": n,
			"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
		}, nil)
		if err == nil {
			err = f.expect(saidOK)
		}
		if err != nil {
			return route{}, fmt.Errorf("create topic %s on %s: %w", c.topic, addr, err)
		}
	}
	for {
		r, err := c.askRoute(ctx)
		if err == nil && len(r.masters) >= len(masters) {
			return r, nil
		}
		if err != nil && !wasRefused(err, saidNoTopic) {
			return route{}, err
		}
		select {
		case <-ctx.Done():
			return route{}, fmt.Errorf("create topic %s: the name server does not hear of it: %w", c.topic, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// masters are the addresses of the brokers where a topic belongs.
func (c *cluster) masters(ctx context.Context) ([]string, error) {
	f, err := c.askNames(ctx, askCluster, nil)
	if err == nil {
		err = f.expect(saidOK)
	}
	if err != nil {
		return nil, fmt.Errorf("which brokers there are: %w", err)
	}
	var data struct {
		Brokers  map[string]brokerData `json:"brokerAddrTable"`
		Clusters map[string][]string   `json:"clusterAddrTable"`
	}
	if err := decode(f.body, &data); err != nil {
		return nil, fmt.Errorf("which brokers there are: %w", err)
	}
	name := c.cluster
	if names := slices.Sorted(maps.Keys(data.Clusters)); name == "" && len(names) == 1 {
		name = names[0]
	} else if name == "" || data.Clusters[name] == nil {
		return nil, fmt.Errorf("the name server knows the clusters %q; say by the URL's cluster=NAME which one it is", names)
	}
	var addrs []string
	for _, broker := range data.Clusters[name] {
		if addr := data.Brokers[broker].Addrs[masterID]; addr != "" {
			addrs = append(addrs, addr)
		}
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("no broker of cluster %q is there", name)
	}
	return addrs, nil
}

// offset asks for one number about a queue. Found is false if the server has none.
func (c *cluster) offset(ctx context.Context, r route, m messageQueue, code int) (offset int64, found bool, err error) {
	fields := m.fields(c.group, c.topic)
	if code == askCommitted {
		// Without it a broker answers 0 for a group it does not know, which is the same in the end.
		fields["setZeroIfNotFound"] = "false"
	}
	f, err := c.call(ctx, r.masters[m.broker], code, fields, nil)
	if err != nil {
		return 0, false, err
	}
	if code == askCommitted && f.Code == saidNotFound {
		return 0, false, nil
	}
	if err := f.expect(saidOK); err != nil {
		return 0, false, err
	}
	offset, err = strconv.ParseInt(f.ExtFields["offset"], 10, 64)
	return offset, err == nil, err
}

// begin is where a queue is to be read from: what the group committed, else its first message.
func (c *cluster) begin(ctx context.Context, r route, m messageQueue) (int64, error) {
	at, found, err := c.offset(ctx, r, m, askCommitted)
	if err == nil && !found {
		at, _, err = c.offset(ctx, r, m, askMinOffset)
	}
	return at, err
}
