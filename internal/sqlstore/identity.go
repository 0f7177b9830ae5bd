package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
)

// Identity names this database: a number drawn by chance when it was first asked for, and
// the same ever after, in every copy too. A stock is bound to it, so that a stock of
// other orders is noticed.
func (db *DB) Identity(ctx context.Context) (string, error) {
	var identity int64
	// Of two that draw at once one meets the other's row, and begins anew.
	err := db.inTx(ctx, func(t tx) error {
		const read = "SELECT value FROM seckill_meta WHERE name = 'identity'"
		err := t.row(ctx, read, nil, &identity)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		var random [8]byte
		rand.Read(random[:])
		identity = int64(binary.BigEndian.Uint64(random[:]) >> 1)
		_, err = t.exec(ctx, "INSERT INTO seckill_meta (name, value) VALUES ('identity', ?)", identity)
		return err
	})
	if err != nil {
		return "", db.fail("read the database's identity", err)
	}
	return fmt.Sprintf("%016x", identity), nil
}
