-- +goose Up
-- One index for what two were for. Its columns stand so that it has, of a run, the sums of each state, whose time is
-- over, and the live orders in the order of their time, without a look at the rows; and that the runs with unpaid orders
-- lie side by side.
DROP INDEX IF EXISTS idx_order_pay_before;
DROP INDEX IF EXISTS idx_order_run;
CREATE INDEX IF NOT EXISTS idx_order_state ON seckill_order (status, activity_id, run, pay_before, id, quantity);
