-- +goose Up
-- One index for what three were for: each tree that an order goes into costs the server about as much as the order's
-- row. Its columns stand so that it has, of a run, the sums of each state, whose time is over, and the live orders in
-- the order of their time, without a look at the rows; and that the runs with unpaid orders lie side by side.
--
-- Data definition is not transactional in MySQL, and has no IF EXISTS for an index (MariaDB's has). One ALTER TABLE is
-- done whole or not at all on both; whether it was done by a process that then died is asked first. A sale goes on
-- meanwhile.
SET @seckill_ddl = IF(
  EXISTS (SELECT 1 FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'seckill_order' AND index_name = 'idx_state'),
  'DO 0',
  'ALTER TABLE seckill_order DROP KEY idx_pay_before, DROP KEY idx_run, DROP KEY idx_run_units, ADD KEY idx_state (status, activity_id, run, pay_before, id, quantity), ALGORITHM=INPLACE, LOCK=NONE');
PREPARE seckill_ddl FROM @seckill_ddl;
EXECUTE seckill_ddl;
DEALLOCATE PREPARE seckill_ddl;
