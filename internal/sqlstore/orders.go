package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill"
	"seckill/internal/order"
)

// paymentRefBytesMax is what the column holds.
const paymentRefBytesMax = 255

// MoveOrder implements [order.Store].
func (db *DB) MoveOrder(ctx context.Context, id, buyer string, to seckill.OrderState, paymentRef string, by *seckill.Actor) (o seckill.Order, todo order.Todo, moved bool, err error) {
	row, ok := orderID(id)
	if !ok {
		return o, todo, false, seckill.ErrNotFound
	}
	if len(paymentRef) > paymentRefBytesMax {
		return o, todo, false, seckill.Invalid("payment_ref", seckill.RuleLength, strconv.Itoa(paymentRefBytesMax))
	}
	condition := ""
	switch to {
	case seckill.Paid:
		condition = " AND pay_before > {now}"
	case seckill.Expired:
		condition = " AND pay_before <= {now}"
	case seckill.Cancelled:
	default:
		return o, todo, false, fmt.Errorf("an order cannot become %s", to)
	}
	err = db.inTx(ctx, func(t tx) error {
		todo, moved = order.Todo{}, false
		n, err := t.exec(ctx, `UPDATE seckill_order SET status = ?, payment_ref = ?, update_time = {now},
			slot = CASE WHEN ? THEN slot END
			WHERE id = ? AND status = 1 AND (? = '' OR user_id = ?)`+condition,
			to, paymentRef, to.Live(), row, buyer, buyerID(buyer))
		if err != nil {
			return err
		}
		moved = n > 0
		var hooks int64
		var now time.Time
		if o, hooks, now, err = readMoved(ctx, t, row); err != nil {
			return err
		}
		if buyer != "" && o.Buyer != buyer {
			return seckill.ErrNotFound
		}
		if !moved {
			return nil
		}
		if !to.Live() {
			if err := giveBack(ctx, t, []seckill.Order{o}); err != nil {
				return err
			}
		}
		todos, err := addTodos(ctx, t, []seckill.Order{o})
		if err != nil {
			return err
		}
		todo = todos[0]
		if err := t.outbox(ctx, hooks, now, 1, func(int) happening { return orderHappened(eventOf(to), now, &o) }); err != nil {
			return err
		}
		if by == nil {
			return nil
		}
		return t.audit(ctx, *by, "order."+to.String(), "order/"+o.ID, detail("payment_ref", paymentRef))
	})
	if err != nil {
		return seckill.Order{}, order.Todo{}, false, db.fail("move order "+id+" to "+to.String(), err)
	}
	return o, todo, moved, nil
}

// ExpireOrders implements [order.Store]. It begins with the run whose order is due the longest.
func (db *DB) ExpireOrders(ctx context.Context, limit int) (todos []order.Todo, err error) {
	// Asked every second, and mostly in vain: so that takes no transaction.
	runs, err := runsDue(ctx, db.reader())
	if err != nil || len(runs) == 0 {
		return nil, db.fail("look for orders that are due", err)
	}
	err = db.inTx(ctx, func(t tx) error {
		todos = nil
		due, err := dueOrders(ctx, t, runs, limit)
		if err != nil || len(due) == 0 {
			return err
		}
		for chunk := range slices.Chunk(due, db.dialect.rowsMax) {
			ids := make([]any, len(chunk))
			for i := range chunk {
				ids[i] = rowID(chunk[i].ID)
				chunk[i].State, chunk[i].Slot = seckill.Expired, 0
			}
			n, err := t.exec(ctx, `UPDATE seckill_order SET status = 4, slot = NULL, update_time = {now}
				WHERE status = 1 AND id IN (`+marks(len(ids))+`)`, ids...)
			if err != nil {
				return err
			}
			if int(n) != len(chunk) {
				return errAgain
			}
		}
		if err := giveBack(ctx, t, due); err != nil {
			return err
		}
		if todos, err = addTodos(ctx, t, due); err != nil {
			return err
		}
		hooks, now, err := t.heard(ctx)
		if err != nil {
			return err
		}
		return t.outbox(ctx, hooks, now, len(due), func(i int) happening { return orderHappened(seckill.OrderExpired, now, &due[i]) })
	})
	if err != nil {
		return nil, db.fail("expire orders", err)
	}
	return todos, nil
}

// giveBack returns the units of orders to the rows of their runs, which are locked in one order.
func giveBack(ctx context.Context, t tx, orders []seckill.Order) error {
	units := map[seckill.RunID]int64{}
	for _, o := range orders {
		units[o.Run] += int64(o.Quantity)
	}
	runs := slices.SortedFunc(maps.Keys(units), func(a, b seckill.RunID) int {
		return cmp.Or(cmp.Compare(a.Activity, b.Activity), cmp.Compare(a.Run, b.Run))
	})
	for _, run := range runs {
		_, err := t.exec(ctx, `UPDATE seckill_stock SET available_stock = available_stock + ?, version = version + 1
			WHERE activity_id = ? AND run = ?`, units[run], run.Activity, run.Run)
		if err != nil {
			return err
		}
	}
	return nil
}

// Order implements [order.Store].
func (db *DB) Order(ctx context.Context, id, buyer string) (seckill.Order, error) {
	row, ok := orderID(id)
	if !ok {
		return seckill.Order{}, seckill.ErrNotFound
	}
	o, err := readOrder(ctx, db.reader(), row)
	if err == nil && buyer != "" && o.Buyer != buyer {
		err = seckill.ErrNotFound
	}
	if err != nil {
		return seckill.Order{}, db.fail("read order "+id, err)
	}
	return o, nil
}

// Orders implements [order.Store].
func (db *DB) Orders(ctx context.Context, buyer, before string, limit int) ([]seckill.Order, error) {
	below, err := cursor(before, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	// With "id + 0" MySQL cannot take the primary key for the order, and so read other buyers' rows.
	orders, err := readOrders(ctx, db.reader(), "WHERE user_id = ? AND id < ? ORDER BY id + 0 DESC LIMIT ?",
		buyerID(buyer), below, limit)
	return orders, db.fail("list a buyer's orders", err)
}

// OrdersByTicket tells which tickets have an order, in whatever state.
func (db *DB) OrdersByTicket(ctx context.Context, tickets []string) (map[string]seckill.Order, error) {
	orders, err := ordersByTicket(ctx, db.reader(), tickets)
	return orders, db.fail("look up orders by ticket", err)
}

const (
	orderFields = `SELECT id, ticket, activity_id, run, user_id, quantity, COALESCE(slot, 0), amount_cents, status,
	payment_ref, create_time, pay_before`
	orderColumns = orderFields + " FROM seckill_order "
)

// scanOrder reads the columns of an order, and more that stand behind them.
func scanOrder(scan func(...any) error, o *seckill.Order, more ...any) error {
	var buyer buyerID
	var createdAt, payBefore stamp
	err := scan(append([]any{&o.ID, &o.Ticket, &o.Run.Activity, &o.Run.Run, &buyer, &o.Quantity, &o.Slot, &o.AmountCents, &o.State,
		&o.PaymentRef, &createdAt, &payBefore}, more...)...)
	o.Buyer, o.CreatedAt, o.PayBefore = string(buyer), createdAt.Time, payBefore.Time
	return err
}

func readOrders(ctx context.Context, t tx, where string, args ...any) (orders []seckill.Order, err error) {
	err = t.rows(ctx, func(scan func(...any) error) error {
		var o seckill.Order
		err := scanOrder(scan, &o)
		orders = append(orders, o)
		return err
	}, orderColumns+where, args...)
	return orders, err
}

func readOrder(ctx context.Context, t tx, id int64) (seckill.Order, error) {
	orders, err := readOrders(ctx, t, "WHERE id = ?", id)
	if err == nil && len(orders) == 0 {
		err = seckill.ErrNotFound
	}
	if err != nil {
		return seckill.Order{}, err
	}
	return orders[0], nil
}

// readMoved reads an order together with what the outbox needs.
func readMoved(ctx context.Context, t tx, id int64) (o seckill.Order, hooks int64, now time.Time, err error) {
	err = seckill.ErrNotFound
	failed := t.rows(ctx, func(scan func(...any) error) error {
		var clock stamp
		err = scanOrder(scan, &o, &hooks, &clock)
		now = clock.Time
		return err
	}, orderFields+", "+hooksVersion+", {now} FROM seckill_order WHERE id = ?", id)
	return o, hooks, now, cmp.Or(failed, err)
}

func ordersByTicket(ctx context.Context, t tx, tickets []string) (map[string]seckill.Order, error) {
	orders := map[string]seckill.Order{}
	err := t.byTicket(ctx, tickets, func(scan func(...any) error) error {
		var o seckill.Order
		err := scanOrder(scan, &o)
		orders[o.Ticket] = o
		return err
	}, orderColumns+"WHERE ticket IN ")
	return orders, err
}

// lockRun holds the row of a run until the transaction ends, and returns what is available.
func lockRun(ctx context.Context, t tx, run seckill.RunID) (available int64, err error) {
	err = t.row(ctx, "SELECT available_stock FROM seckill_stock WHERE activity_id = ? AND run = ?"+t.db.dialect.lockRow,
		[]any{run.Activity, run.Run}, &available)
	return available, err
}

// Todos implements [order.Store].
func (db *DB) Todos(ctx context.Context, after int64, limit int) ([]order.Todo, error) {
	t := db.reader()
	var todos []order.Todo
	var orderIDs []any
	of := map[string]int{} // Order to its place in todos.
	err := t.rows(ctx, func(scan func(...any) error) error {
		var todo order.Todo
		var buyer buyerID
		var id sql.NullInt64
		var reason string
		err := scan(&todo.ID, &todo.Run.Activity, &todo.Run.Run, &todo.Ticket, &buyer, &id, &reason, &todo.WrittenOff)
		todo.Buyer = string(buyer)
		if id.Valid {
			orderIDs = append(orderIDs, id.Int64)
			of[strconv.FormatInt(id.Int64, 10)] = len(todos)
		} else {
			todo.Failed, _ = seckill.ParseReason(reason)
		}
		todos = append(todos, todo)
		return err
	}, `SELECT id, activity_id, run, ticket, user_id, order_id, reason, written_off FROM seckill_todo
		WHERE id > ? ORDER BY id LIMIT ?`, after, limit)
	if err != nil {
		return nil, db.fail("list to-dos", err)
	}
	for chunk := range slices.Chunk(orderIDs, db.dialect.rowsMax) {
		orders, err := readOrders(ctx, t, "WHERE id IN ("+marks(len(chunk))+")", chunk...)
		if err != nil {
			return nil, db.fail("read the orders of to-dos", err)
		}
		for i := range orders {
			todos[of[orders[i].ID]].Order = &orders[i]
		}
	}
	// A row that somebody deleted by hand must not become a failed reservation.
	return slices.DeleteFunc(todos, func(t order.Todo) bool { return t.Order == nil && t.Failed == seckill.NoReason }), nil
}

// TodosDone implements [order.Store].
func (db *DB) TodosDone(ctx context.Context, ids ...int64) error {
	for chunk := range slices.Chunk(ids, db.dialect.rowsMax) {
		err := db.inTx(ctx, func(t tx) error {
			_, err := t.exec(ctx, "DELETE FROM seckill_todo WHERE id IN ("+marks(len(chunk))+")", anys(chunk)...)
			return err
		})
		if err != nil {
			return db.fail("finish to-dos", err)
		}
	}
	return nil
}

// addTodos notes what the stock has to be told of orders.
func addTodos(ctx context.Context, t tx, orders []seckill.Order) ([]order.Todo, error) {
	todos := make([]order.Todo, len(orders))
	for i := range orders {
		o := &orders[i]
		todos[i].ID = t.db.ids.next()
		todos[i].Run, todos[i].Ticket, todos[i].Buyer, todos[i].Order = o.Run, o.Ticket, o.Buyer, o
	}
	return todos, storeTodos(ctx, t, todos)
}

func storeTodos(ctx context.Context, t tx, todos []order.Todo) error {
	for chunk := range slices.Chunk(todos, t.db.dialect.rowsMax) {
		var args []any
		for _, todo := range chunk {
			var orderID any
			if todo.Order != nil {
				orderID = rowID(todo.Order.ID)
			}
			args = append(args, todo.ID, todo.Run.Activity, todo.Run.Run, todo.Ticket, buyerID(todo.Buyer), orderID,
				todo.Failed.String(), todo.WrittenOff)
		}
		_, err := t.exec(ctx, `INSERT INTO seckill_todo (id, activity_id, run, ticket, user_id, order_id, reason, written_off,
			create_time) VALUES `+strings.TrimSuffix(strings.Repeat("(?,?,?,?,?,?,?,?,{now}),", len(chunk)), ","), args...)
		if err != nil {
			return err
		}
	}
	return nil
}
