package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"seckill"
)

// The log of a run is rows; a row is a header and entries. Numbers of an entry are
// varints, strings and lists have their length in front.
//
//	row    version u8, 3 bytes of zero, activity u64, run u32, previous row u64, entries u32, crc32c u32
//	entry  bytes u32, crc32c u32, then the payload: kind u8, sequence number, fields
//
// The parts of a snapshot are rows too, with the number of the part in the place of
// the previous row.
const (
	rowVersion  = 1
	headerBytes = 32
	frameBytes  = 8
)

// kind of an entry. The numbers are stored.
type kind byte

const (
	kindState    kind = 1 // The run is replaced: by a load, or in a snapshot.
	kindPurchase kind = 2 // A purchase of it, as it is; only after kindState.
	kindReserve  kind = 3 // Reservations that were taken together.
	kindSettle   kind = 4
	kindRestock  kind = 5
	kindControl  kind = 6
	kindDrop     kind = 7
	kindAck      kind = 8 // A message of the outbox is taken care of.
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged is wrapped by whatever is wrong with stored bytes.
var errDamaged = errors.New("the stock's file is damaged")

// begin starts an entry; the returned start goes to finish.
func begin(b []byte, k kind, lsn uint64) (_ []byte, start int) {
	start = len(b)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, byte(k))
	return binary.AppendUvarint(b, lsn), start
}

func finish(b []byte, start int) {
	payload := b[start+frameBytes:]
	binary.LittleEndian.PutUint32(b[start:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[start+4:], crc32.Checksum(payload, castagnoli))
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendTime(b []byte, t time.Time) []byte {
	return binary.AppendUvarint(binary.AppendVarint(b, t.Unix()), uint64(t.Nanosecond()))
}

// header of a row.
type header struct {
	run     seckill.RunID
	prev    uint64
	entries int
}

// put writes the header over the first bytes of a row.
func (h header) put(row []byte) {
	clear(row[:headerBytes])
	row[0] = rowVersion
	binary.LittleEndian.PutUint64(row[4:], uint64(h.run.Activity))
	binary.LittleEndian.PutUint32(row[12:], uint32(h.run.Run))
	binary.LittleEndian.PutUint64(row[16:], h.prev)
	binary.LittleEndian.PutUint32(row[24:], uint32(h.entries))
	binary.LittleEndian.PutUint32(row[28:], crc32.Checksum(row[:28], castagnoli))
}

// readRow checks a row and hands over its entries, in order.
func readRow(row []byte, check func(header) error, entry func(kind, uint64, *decoder) error) error {
	if len(row) < headerBytes {
		return fmt.Errorf("%w: a row of %d bytes", errDamaged, len(row))
	}
	if crc32.Checksum(row[:28], castagnoli) != binary.LittleEndian.Uint32(row[28:]) {
		return fmt.Errorf("%w: the checksum of a row's header is wrong", errDamaged)
	}
	if row[0] != rowVersion {
		return fmt.Errorf("the stock's file has rows of version %d; this program reads %d", row[0], rowVersion)
	}
	h := header{
		run: seckill.RunID{
			Activity: int64(binary.LittleEndian.Uint64(row[4:])),
			Run:      int(binary.LittleEndian.Uint32(row[12:])),
		},
		prev:    binary.LittleEndian.Uint64(row[16:]),
		entries: int(binary.LittleEndian.Uint32(row[24:])),
	}
	if err := check(h); err != nil {
		return err
	}
	rest := row[headerBytes:]
	for i := range h.entries {
		payload, after, err := readFrame(rest)
		if err != nil {
			return fmt.Errorf("entry %d of %d: %w", i+1, h.entries, err)
		}
		rest = after
		d := &decoder{b: payload}
		k, lsn := kind(d.byte()), d.uvarint()
		if err := entry(k, lsn, d); err != nil {
			return fmt.Errorf("entry %d of %d, kind %d: %w", i+1, h.entries, k, err)
		}
		if err := d.end(); err != nil {
			return fmt.Errorf("entry %d of %d, kind %d: %w", i+1, h.entries, k, err)
		}
	}
	if len(rest) != 0 {
		return fmt.Errorf("%w: %d bytes after the last entry of a row", errDamaged, len(rest))
	}
	return nil
}

func readFrame(b []byte) (payload, rest []byte, err error) {
	if len(b) < frameBytes {
		return nil, nil, fmt.Errorf("%w: cut off", errDamaged)
	}
	n := int(binary.LittleEndian.Uint32(b))
	sum := binary.LittleEndian.Uint32(b[4:])
	if n > len(b)-frameBytes {
		return nil, nil, fmt.Errorf("%w: cut off", errDamaged)
	}
	payload, rest = b[frameBytes:frameBytes+n], b[frameBytes+n:]
	if crc32.Checksum(payload, castagnoli) != sum {
		return nil, nil, fmt.Errorf("%w: wrong checksum", errDamaged)
	}
	return payload, rest, nil
}

// decoder reads the fields of an entry. After a field that is not there all others are
// zero, and end says so.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

// within is a number that has bounds.
func (d *decoder) within(low, high int64) int64 {
	v := d.varint()
	if v < low || v > high {
		d.bad, d.b = true, nil
		return low
	}
	return v
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) bool() bool {
	v := d.byte()
	d.bad = d.bad || v > 1
	return v == 1
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return ""
	}
	v := string(d.b[:n])
	d.b = d.b[n:]
	return v
}

// count is the length of a list, whose elements take at least a byte each.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) time() time.Time {
	sec, nsec := d.varint(), d.uvarint()
	if nsec >= 1e9 {
		d.bad = true
		return time.Time{}
	}
	return time.Unix(sec, int64(nsec)).UTC()
}

func (d *decoder) end() error {
	if d.bad || len(d.b) != 0 {
		return fmt.Errorf("%w: an entry makes no sense", errDamaged)
	}
	return nil
}
