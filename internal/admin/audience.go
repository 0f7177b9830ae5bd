package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"seckill"
	"seckill/internal/strictjson"
)

// audiences keeps the lists of buyers that activities are for.
type audiences interface {
	Audience(ctx context.Context, activity int64) (seckill.AudienceState, error)
	// SetAudience replaces the list by the buyers that read adds. An error of read is returned as it is, and
	// nothing is changed.
	SetAudience(ctx context.Context, activity int64, read func(add func(buyer string) error) error, by seckill.Actor) (seckill.AudienceState, error)
}

// Bounds of a list of buyers.
const (
	audienceBytesMax = 80 << 20
	audienceTimeout  = 5 * time.Minute
	audienceWrongMax = 20 // Wrong ids that are told of at once.
)

type audienceView struct {
	Count     int64      `json:"count"` // Different buyers.
	Version   int64      `json:"version"`
	UpdatedAt *time.Time `json:"updated_at"` // null if there never was a list.
}

func showAudience(a seckill.AudienceState, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	v := audienceView{Count: a.Count, Version: a.Version}
	if !a.UpdatedAt.IsZero() {
		at := a.UpdatedAt.UTC()
		v.UpdatedAt = &at
	}
	return answer{status: http.StatusOK, body: v}, nil
}

func (s *Server) getAudience(r *http.Request) (answer, error) {
	id, err := pathID(r)
	if err != nil {
		return answer{}, err
	}
	return showAudience(s.o.Audiences.Audience(r.Context(), id))
}

func (s *Server) setAudience(r *http.Request) (answer, error) {
	id, err := pathID(r)
	if err != nil {
		return answer{}, err
	}
	by, wrong := actor(r, nil)
	if err := merge(nil, wrong); err != nil {
		return answer{}, err
	}
	return showAudience(s.o.Audiences.SetAudience(r.Context(), id, func(add func(string) error) error {
		return readBuyers(r.Body, r.Header.Get("Content-Type"), add)
	}, by))
}

// uploads is api for bodies that are large, and take their time.
func (s *Server) uploads(handle func(r *http.Request) (answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// The listener's own deadlines are for small requests. Where there are none, none can be moved.
		deadlines := http.NewResponseController(w)
		_ = deadlines.SetReadDeadline(time.Now().Add(audienceTimeout))
		_ = deadlines.SetWriteDeadline(time.Now().Add(audienceTimeout))
		s.apiWithin(audienceTimeout, audienceBytesMax, handle)(w, r)
	}
}

// readBuyers reads a JSON array, or text with an id on each line. What the caller calls it
// decides; if it is neither, the first character does.
func readBuyers(from io.Reader, kind string, add func(string) error) error {
	text := bufio.NewReaderSize(from, 64<<10)
	if mark, _ := text.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = text.Discard(3) // They are there.
	}
	kind, _, _ = mime.ParseMediaType(kind)
	isJSON := kind == "application/json"
	if !isJSON && !strings.HasPrefix(kind, "text/") {
		start, _ := text.Peek(512) // What is wrong with the body shows when it is read.
		isJSON = bytes.HasPrefix(bytes.TrimLeft(start, " \t\r\n"), []byte("["))
	}
	var b buyers
	var err error
	if isJSON {
		err = b.array(text, add)
	} else {
		err = b.lines(text, add)
	}
	var tooLarge *http.MaxBytesError
	var refusal *seckill.Refusal
	switch {
	case errors.As(err, &tooLarge):
		return &seckill.Refusal{Reason: seckill.TooLarge, Detail: fmt.Sprintf("A list of buyers has at most %d MiB.", audienceBytesMax>>20)}
	case errors.As(err, &refusal):
		return err
	case err != nil:
		return seckill.Invalid(strictjson.Body, seckill.RuleFormat, "complete")
	case len(b.wrong) > 0:
		return &seckill.Refusal{Reason: seckill.InvalidRequest, Fields: b.wrong}
	case !isJSON && b.taken == 0:
		// An empty file is a mistake more often than a wish; [] is the wish.
		return seckill.Invalid(strictjson.Body, seckill.RuleRequired, "")
	}
	return nil
}

// buyers reads ids, and collects what is wrong with them.
type buyers struct {
	taken int
	wrong []seckill.FieldError
}

// take adds an id. It tells whether to go on.
func (b *buyers) take(id, place string, add func(string) error) (more bool, err error) {
	if seckill.ValidBuyer(id) {
		if len(b.wrong) > 0 {
			return true, nil // It is looked at, but nothing will come of it.
		}
		b.taken++
		return true, add(id)
	}
	b.refuse(place)
	return len(b.wrong) < audienceWrongMax, nil
}

func (b *buyers) refuse(place string) {
	b.wrong = append(b.wrong, seckill.FieldError{
		Field: place, Rule: seckill.RuleFormat, Arg: "a buyer's id: 1 to " + strconv.Itoa(seckill.BuyerBytesMax) + " bytes of printable ASCII",
	})
}

// lines reads an id from each line; empty ones are passed over.
func (b *buyers) lines(r *bufio.Reader, add func(string) error) error {
	for n := 1; ; n++ {
		line, err := r.ReadSlice('\n')
		long := false
		for errors.Is(err, bufio.ErrBufferFull) {
			long = true
			_, err = r.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		id := string(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")))
		if long {
			id = ""
		}
		if id != "" || long {
			more, failed := b.take(id, "line "+strconv.Itoa(n), add)
			if failed != nil || !more {
				return failed
			}
		}
		if err != nil {
			return nil //nolint:nilerr // It is the end.
		}
	}
}

// array reads a JSON array of strings; whole numbers are taken as they are written.
func (b *buyers) array(r io.Reader, add func(string) error) error {
	notJSON := seckill.Invalid(strictjson.Body, seckill.RuleFormat, "a JSON array of buyers' ids, or text with one on each line")
	decoder := json.NewDecoder(r)
	decoder.UseNumber()
	token, err := decoder.Token()
	if err != nil {
		return jsonFault(err, notJSON)
	}
	if token != json.Delim('[') {
		return seckill.Invalid(strictjson.Body, seckill.RuleType, "array")
	}
	for n := 0; decoder.More(); n++ {
		token, err := decoder.Token()
		if err != nil {
			return jsonFault(err, notJSON)
		}
		id := ""
		switch v := token.(type) {
		case string:
			id = v
		case json.Number:
			if id = v.String(); strings.Trim(id, "0123456789") != "" {
				id = ""
			}
		case json.Delim: // Where it ends is of no interest.
			b.refuse("body[" + strconv.Itoa(n) + "]")
			return nil
		}
		more, err := b.take(id, "body["+strconv.Itoa(n)+"]", add)
		if err != nil || !more {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return jsonFault(err, notJSON)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return jsonFault(err, notJSON)
	}
	return nil
}

// jsonFault tells what is no JSON from what could not be read.
func jsonFault(err error, notJSON error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return err
	}
	return notJSON
}
