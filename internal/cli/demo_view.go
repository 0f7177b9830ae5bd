package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"seckill"
	"seckill/internal/bench"
)

// demoWords are the demo's texts in one language.
type demoWords struct {
	title, buyerPage, console, token, data, onSale, units                  string
	product, description, opensIn, open, stays, taken                      string
	stock, accepted, refused, queued, confirmed, errors                    string
	result, sold, buyersGot, soldOutAfter, latency, books, good, unsettled string
	plainLine, equation, balanced, unbalanced                              string
}

var english = demoWords{
	title: "seckill demo: everything runs in this process", buyerPage: "buyer page", console: "console", token: "admin token", data: "data",
	onSale: "on sale", units: "%d units of %s", product: "Demo kettle", description: "A kettle that everybody wants. Nothing is really sold.",
	opensIn: "The sale opens in %s.", open: "The sale is open.", stays: "\n  The server stays up. Ctrl-C ends it.",
	taken: "%s is taken; a free port is used instead.",
	stock: "stock", accepted: "accepted", refused: "refused", queued: "queue", confirmed: "confirmed", errors: "errors",
	result: "Result", sold: "sold", buyersGot: "%s of %s units, to %s of %s buyers who clicked %s times in all",
	soldOutAfter: "sold out after", latency: "latency", books: "books", good: "no unit oversold, lost, or sold past a buyer's limit",
	unsettled: "BROKEN PROMISE", plainLine: "%5.2fs  stock %d of %d, %s accepted, %s refused (%s), queue %d, %d confirmed",
	equation: equationForm, balanced: "balanced", unbalanced: "NOT balanced",
}

var chinese = demoWords{
	title: "seckill 演示：所有部分都在这一个进程里运行", buyerPage: "抢购页面", console: "控制台", token: "管理令牌", data: "数据目录",
	onSale: "在售商品", units: "%d 件「%s」", product: "演示水壶", description: "一只人人想要的水壶。演示商品，并不真正出售。",
	opensIn: "%s 后开抢。", open: "开抢了。", stays: "\n  服务仍在运行，按 Ctrl-C 结束。",
	taken: "%s 已被占用，改用空闲端口。",
	stock: "库存", accepted: "抢到", refused: "未抢到", queued: "排队", confirmed: "已下单", errors: "错误",
	result: "结果", sold: "售出", buyersGot: "%s / %s 件，%s 人抢到，共 %s 人、点击 %s 次",
	soldOutAfter: "售罄用时", latency: "延迟", books: "账目", good: "没有超卖、没有丢失、没有人超过限购",
	unsettled: "承诺被破坏", plainLine: "%5.2f 秒  库存 %d / %d，抢到 %s，未抢到 %s（%s），排队 %d，已下单 %d",
	equation: "总数 %d %s 可售 %d + 排队 %d + 待付款 %d + 已付款 %d + 死信 %d：%s", balanced: "账平", unbalanced: "账不平",
}

// wordsFor chooses by the variables that programs of a terminal go by.
func wordsFor(p *program) *demoWords {
	lang := first(p.variable("LC_ALL"), p.variable("LC_MESSAGES"), p.variable("LANG"))
	if strings.HasPrefix(strings.ToLower(lang), "zh") {
		return &chinese
	}
	return &english
}

// rushView shows the rush as it happens: on a terminal a few lines that change, else
// a plain line each time.
type rushView struct {
	d     *demo
	w     io.Writer
	live  bool
	drawn int // Lines on the terminal.
	books seckill.Books
	took  bench.Quantiles // While buyers are answered.
}

func newRushView(d *demo) *rushView {
	return &rushView{d: d, w: d.p.stdout, live: terminal(d.p.stdout), books: seckill.Books{Total: d.stock, Available: d.stock}}
}

const barPlaces = 40

func (v *rushView) show(ctx context.Context, g bench.Progress) {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if a, err := v.d.admin.Activity(ctx, v.d.activity.ID); err == nil && a.Books != nil {
		v.books = *a.Books // An older figure is shown again when the server is busy with buyers.
	}
	if g.Recent.Latency.Count > 0 {
		v.took = g.Recent.Latency
	}
	t, b := v.d.words, v.books
	confirmed := b.AwaitingPayment + b.Paid
	reasons := outcomeText(named(&g.Tally))
	if !v.live {
		fmt.Fprintf(v.w, "  "+t.plainLine+"\n", g.Elapsed.Seconds(), b.Available, b.Total, bench.Thousands(g.Tally.Accepted()), bench.Thousands(g.Tally.Refused()), reasons, b.Queued, confirmed)
		return
	}
	filled := 0
	if b.Total > 0 {
		filled = int(min(max(b.Available*barPlaces/b.Total, 0), barPlaces))
	}
	lines := []string{
		fmt.Sprintf("%s [%s%s] %s / %s", t.stock, strings.Repeat("█", filled), strings.Repeat("░", barPlaces-filled), bench.Thousands(b.Available), bench.Thousands(b.Total)),
		fmt.Sprintf("%s %s   %s %s   %s %d", t.accepted, bench.Thousands(g.Tally.Accepted()), t.refused, bench.Thousands(g.Tally.Refused()), t.errors, g.Tally.Errors()),
		reasons,
		fmt.Sprintf("%s %d   %s %d   p50 %.1f ms   p99 %.1f ms", t.queued, b.Queued, t.confirmed, confirmed, v.took.P50, v.took.P99),
	}
	if v.drawn > 0 {
		fmt.Fprintf(v.w, "\x1b[%dA", v.drawn)
	}
	for _, l := range lines {
		fmt.Fprint(v.w, "\r\x1b[K  "+l+"\n")
	}
	v.drawn = len(lines)
}

// named gives refusals and their counts.
func named(t *bench.Tally) map[string]int64 {
	m := map[string]int64{}
	for i, n := range t.Outcomes {
		if r := seckill.Reason(i); r != seckill.NoReason && n > 0 {
			m[r.String()] = n
		}
	}
	return m
}

func outcomeText(m map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, name+" "+bench.Thousands(m[name]))
	}
	return strings.Join(parts, ", ")
}

// result prints what came of the rush.
func (d *demo) result(r *bench.Report) {
	w, t := d.p.stdout, d.words
	k := r.Books.After
	refused := maps.Clone(r.Outcomes)
	delete(refused, "accepted")
	n := bench.Thousands
	rows := [][]string{
		{"  " + t.sold, fmt.Sprintf(t.buyersGot, n(k.AwaitingPayment+k.Paid), n(k.Total), n(r.Tickets.Confirmed), n(r.Buyers), n(r.Requests))},
		{"  " + t.refused, first(outcomeText(refused), "0")},
	}
	if r.Errors > 0 {
		rows = append(rows, []string{"  " + t.errors, outcomeText(r.ErrorKinds)})
	}
	if r.SoldOutAfter > 0 {
		rows = append(rows, []string{"  " + t.soldOutAfter, fmt.Sprintf("%.3f s", r.SoldOutAfter)})
	}
	rows = append(rows,
		[]string{"  " + t.latency, fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, max %.1f ms", r.Latency.P50, r.Latency.P99, r.Latency.Max)},
		[]string{"  " + t.books, equationIn(t, &k)})
	fmt.Fprintf(w, "\n  %s\n\n", t.result)
	table(w, rows)
	for _, v := range r.Violations {
		fmt.Fprintf(w, "  %s: %s\n", t.unsettled, printable(v))
	}
	if len(r.Violations) == 0 {
		fmt.Fprintf(w, "\n  %s\n", t.good)
	}
}
