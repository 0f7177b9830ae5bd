// Package telemetry holds every metric in one table, so that a name is written once. It
// follows the Prometheus conventions: one prefix, base units, and no label that
// takes a buyer's id.
package telemetry

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"seckill"
)

// Metrics of one process. All of it may be used concurrently.
type Metrics struct {
	Registry *prometheus.Registry

	// Purchases counts purchase requests by outcome: index seckill.NoReason is
	// "accepted", the others are the reasons.
	Purchases         [seckill.Reasons]prometheus.Counter
	Entries           *prometheus.CounterVec // Requests for an entry token, by outcome: issued, a reason, or what is wrong with the proof.
	PurchaseSeconds   prometheus.Histogram   // Of all purchase requests that reached the stock.
	BatchSize         prometheus.Histogram   // Attempts decided by one call of the stock.
	OrdersWritten     *prometheus.CounterVec
	OrderLagSeconds   prometheus.Histogram // Reserved to confirmed.
	QueueBacklog      *prometheus.GaugeVec
	QueueOldest       prometheus.Gauge
	StockUnits        *prometheus.GaugeVec
	DeadLetters       prometheus.Gauge
	SSEClients        prometheus.Gauge
	Switches          *prometheus.GaugeVec   // By name: 1 or 0, or the percent.
	Blocks            *prometheus.GaugeVec   // That are active, by kind.
	WebhookDeliveries *prometheus.CounterVec // Attempts by outcome: delivered, failed, given_up.
	WebhookPending    prometheus.Gauge
	StockSilent       prometheus.Gauge   // Runs whose buyers are refused since the stock does not answer.
	StockOpened       prometheus.Counter // How often that began.
}

// New makes the metrics of a process.
func New(version string) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry()}
	purchases := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "seckill_purchases_total", Help: "Purchase requests by outcome.",
	}, []string{"outcome"})
	for i := range m.Purchases {
		outcome := seckill.Reason(i).String()
		if outcome == "" {
			outcome = "accepted"
		}
		m.Purchases[i] = purchases.WithLabelValues(outcome)
	}
	m.PurchaseSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "seckill_purchase_duration_seconds", Help: "Time that the stock took for a purchase request, waiting included.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
	})
	m.BatchSize = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "seckill_reservation_batch_size", Help: "Attempts decided by one call of the stock.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 12),
	})
	m.OrdersWritten = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "seckill_orders_written_total", Help: "Reservations that the order writer has settled, by outcome.",
	}, []string{"outcome"})
	for _, outcome := range []string{"confirmed", "failed", "dead"} {
		m.OrdersWritten.WithLabelValues(outcome) // A rate of what is not there yet cannot be had.
	}
	m.OrderLagSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "seckill_order_lag_seconds", Help: "From the reservation to its committed order.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 18),
	})
	m.QueueBacklog = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "seckill_queue_backlog", Help: "Reservations that wait for an order.",
	}, []string{"activity"})
	m.QueueOldest = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "seckill_queue_oldest_seconds", Help: "Age of the oldest reservation that waits for an order.",
	})
	m.StockUnits = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "seckill_stock_units", Help: "Units of the present run, by where they are.",
	}, []string{"activity", "state"})
	m.DeadLetters = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "seckill_dead_letters", Help: "Dead letters that wait for an operator.",
	})
	m.SSEClients = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "seckill_sse_clients", Help: "Buyers that wait on a stream of events.",
	})
	m.control()
	m.door()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "seckill_build_info", Help: "Always 1; the labels tell what runs.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	m.Registry.MustRegister(m.WebhookDeliveries, m.WebhookPending, purchases, m.PurchaseSeconds, m.BatchSize, m.OrdersWritten, m.OrderLagSeconds,
		m.QueueBacklog, m.QueueOldest, m.StockUnits, m.DeadLetters, m.SSEClients, m.StockSilent, m.StockOpened, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Issued is the outcome of an entry that got its token.
const Issued = "issued"

// door makes the metrics of who wants to enter.
func (m *Metrics) door() {
	m.Entries = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "seckill_entries_total", Help: "Requests for an entry token by outcome: issued, the reason of the refusal, or proof_ and what is wrong with the proof.",
	}, []string{"outcome"})
	m.Entries.WithLabelValues(Issued)
	m.Registry.MustRegister(m.Entries)
}

// Forgotten has the metrics count what a rate limit has forgotten too early, as it says itself.
func (m *Metrics) Forgotten(limit string, count func() int64) {
	m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "seckill_limit_forgotten_total", Help: "Keys that a rate limit has forgotten while they were in debt: its table is too small, or somebody floods it.",
		ConstLabels: prometheus.Labels{"limit": limit},
	}, func() float64 { return float64(count()) }))
}

// control makes the metrics of what operators turn, and of what acts by itself.
func (m *Metrics) control() {
	m.StockSilent = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "seckill_stock_silent", Help: "Runs whose buyers are refused as busy, since the stock does not answer.",
	})
	m.StockOpened = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "seckill_stock_silences_total", Help: "How often the stock was found not to answer, and buyers were refused as busy.",
	})
	m.Switches = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "seckill_switch", Help: "How the operators' switches stand on this node: 1 is on, 0 is off; a percentage is the number.",
	}, []string{"name"})
	m.Blocks = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "seckill_blocks", Help: "Blocks that this node knows, by what they look at.",
	}, []string{"kind"})
	m.WebhookDeliveries = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "seckill_webhook_deliveries_total", Help: "Attempts to deliver an event to a webhook, by how they ended.",
	}, []string{"outcome"})
	for _, outcome := range []string{"delivered", "failed", "given_up"} {
		m.WebhookDeliveries.WithLabelValues(outcome)
	}
	m.WebhookPending = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "seckill_webhook_pending", Help: "Events that wait to be delivered to a webhook.",
	})
	m.Registry.MustRegister(m.Switches, m.Blocks)
}
