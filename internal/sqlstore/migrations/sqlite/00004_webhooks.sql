-- +goose Up

CREATE TABLE seckill_webhook (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  url         TEXT    NOT NULL,
  events      TEXT    NOT NULL, -- Comma-separated.
  secret      TEXT    NOT NULL,
  old_secret  TEXT    NOT NULL DEFAULT '', -- Signs beside the other until old_until.
  old_until   TEXT    NULL,
  create_time TEXT    NOT NULL,
  disabled    INTEGER NOT NULL DEFAULT 0,
  reason      TEXT    NOT NULL DEFAULT '', -- Why it is disabled.
  failures    INTEGER NOT NULL DEFAULT 0, -- In a row.
  resume_time TEXT    NOT NULL, -- Nothing is sent before.
  lease_owner TEXT    NOT NULL DEFAULT '', -- The one sender that works for it, until lease_until.
  lease_until TEXT    NOT NULL
) STRICT;

-- Events, written in the transaction of what they tell of.
CREATE TABLE seckill_webhook_delivery (
  id             INTEGER PRIMARY KEY,
  webhook_id     INTEGER NOT NULL,
  ticket         TEXT    NOT NULL,
  step           INTEGER NOT NULL, -- Place of the event among those of its ticket.
  order_id       INTEGER NULL, -- NULL when the reservation failed.
  event          TEXT    NOT NULL,
  payload        TEXT    NOT NULL,
  state          INTEGER NOT NULL DEFAULT 0, -- 0 pending, 1 delivered, 2 given up
  attempts       INTEGER NOT NULL DEFAULT 0,
  last_error     TEXT    NOT NULL,
  create_time    TEXT    NOT NULL,
  since_time     TEXT    NOT NULL, -- Retries end a day after it.
  next_time      TEXT    NOT NULL, -- Of the next attempt; of the last one when it is not pending.
  delivered_time TEXT    NULL
) STRICT;
CREATE INDEX idx_webhook_delivery_list ON seckill_webhook_delivery (webhook_id, id);
CREATE INDEX idx_webhook_delivery_due ON seckill_webhook_delivery (webhook_id, state, next_time);
CREATE INDEX idx_webhook_delivery_ticket ON seckill_webhook_delivery (webhook_id, ticket);

INSERT INTO seckill_meta (name, value) VALUES ('webhook_version', 1);
