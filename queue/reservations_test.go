package queue

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"seckill"
)

func reservations(run seckill.RunID) []seckill.Reservation {
	at := time.UnixMilli(1_800_000_000_123).UTC()
	return []seckill.Reservation{
		{Ticket: seckill.NewTicket(run), Run: run, Buyer: "7f3e", Quantity: 1, Slot: 1, ReservedAt: at},
		{Ticket: seckill.NewTicket(run), Run: run, Buyer: `quote " and space`, Quantity: seckill.QuantityMax, Slot: 3, ReservedAt: at},
	}
}

// What is encoded is read back as it was.
func TestReservationsRoundTrip(t *testing.T) {
	run := seckill.RunID{Activity: 42, Run: 7}
	want := reservations(run)
	gotRun, got, err := DecodeReservations(EncodeReservations(run, want))
	if err != nil || gotRun != run || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v %+v, %v, want %v %+v", gotRun, got, err, run, want)
	}
}

// A message that cannot become orders is refused, and the error says why.
func TestDecodeRefuses(t *testing.T) {
	run := seckill.RunID{Activity: 42, Run: 7}
	good := string(EncodeReservations(run, reservations(run)))
	for name, c := range map[string]struct{ body, says string }{
		"empty":              {"", "decode message"},
		"garbage":            {"\x00\xff", "decode message"},
		"newer version":      {strings.Replace(good, `"v":1`, `"v":2`, 1), "version 2"},
		"no version":         {strings.Replace(good, `"v":1,`, ``, 1), "version 0"},
		"no activity":        {strings.Replace(good, `"activity":42`, `"activity":0`, 1), "activity 0"},
		"other run":          {strings.Replace(good, `"run":7`, `"run":8`, 1), "is not of activity 42, run 8"},
		"no buyer":           {strings.Replace(good, `"buyer":"7f3e"`, `"buyer":""`, 1), "buyer's id"},
		"no quantity":        {strings.Replace(good, `"quantity":1,`, `"quantity":0,`, 1), "quantity 0"},
		"huge quantity":      {strings.Replace(good, `"quantity":1,`, `"quantity":1000001,`, 1), "quantity 1000001"},
		"negative slot":      {strings.Replace(good, `"slot":1,`, `"slot":-1,`, 1), "slot -1"},
		"no reservations":    {`{"v":1,"activity":1,"run":1,"reservations":[]}`, "0 reservations"},
		"ticket of nobody":   {`{"v":1,"activity":1,"run":1,"reservations":[{"ticket":"x"}]}`, `ticket "x"`},
		"quantity is a text": {strings.Replace(good, `"quantity":1,`, `"quantity":"1",`, 1), "decode message"},
	} {
		if _, _, err := DecodeReservations([]byte(c.body)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want an error that says %q", name, err, c.says)
		}
	}
}

// Whatever is accepted can be encoded again, and means the same.
func FuzzDecodeReservations(f *testing.F) {
	run := seckill.RunID{Activity: 42, Run: 7}
	f.Add(EncodeReservations(run, reservations(run)))
	f.Add([]byte(`{"v":1,"activity":1,"run":1,"reservations":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		run, rs, err := DecodeReservations(body)
		if err != nil {
			return
		}
		run2, rs2, err := DecodeReservations(EncodeReservations(run, rs))
		if err != nil || run2 != run || !reflect.DeepEqual(rs2, rs) {
			t.Errorf("%q: %v %+v became %v %+v, %v", body, run, rs, run2, rs2, err)
		}
	})
}

// The example in the documentation is what this program writes.
func TestDocumentedMessage(t *testing.T) {
	page, err := os.ReadFile("../docs/message.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```json\n")
	example, _, _ := strings.Cut(rest, "\n```")
	run, rs, err := DecodeReservations([]byte(example))
	if err != nil || len(rs) == 0 {
		t.Fatalf("the example cannot be read: %v", err)
	}
	if got := string(EncodeReservations(run, rs)); got != example {
		t.Errorf("this program writes %s, the page says %s", got, example)
	}
}
