-- +goose Up
-- Times are text, 2006-01-02 15:04:05.000000 in UTC: of one width, so that they sort.

CREATE TABLE seckill_activity (
  id                INTEGER PRIMARY KEY AUTOINCREMENT,
  name              TEXT    NOT NULL,
  start_time        TEXT    NOT NULL, -- Of the present run.
  end_time          TEXT    NOT NULL, -- Of the present run.
  status            INTEGER NOT NULL DEFAULT 0, -- 0 scheduled, 1 loaded, 2 closed, 3 rebuilding
  description       TEXT    NOT NULL,
  price_cents       INTEGER NOT NULL,
  run               INTEGER NOT NULL,
  epoch             INTEGER NOT NULL,
  paused            INTEGER NOT NULL DEFAULT 0,
  limit_per_user    INTEGER NOT NULL,
  sub_stocks        INTEGER NOT NULL,
  preload_before_ms INTEGER NOT NULL,
  payment_window_ms INTEGER NOT NULL,
  challenge         INTEGER NOT NULL DEFAULT 0,
  entry_token       INTEGER NOT NULL DEFAULT 0,
  audience          TEXT    NOT NULL,
  create_time       TEXT    NOT NULL,
  update_time       TEXT    NOT NULL
) STRICT;

CREATE TABLE seckill_stock (
  activity_id     INTEGER NOT NULL,
  run             INTEGER NOT NULL,
  total_stock     INTEGER NOT NULL CHECK (total_stock >= 0),
  available_stock INTEGER NOT NULL CHECK (available_stock >= 0),
  version         INTEGER NOT NULL DEFAULT 0,
  marks           INTEGER NOT NULL DEFAULT 0, -- Raised when a ticket of the run is refused or dead.
  start_time      TEXT    NOT NULL,
  end_time        TEXT    NOT NULL,
  dropped         INTEGER NOT NULL DEFAULT 0, -- 1 when the stock was told to forget the run.
  PRIMARY KEY (activity_id, run)
) STRICT;

CREATE TABLE seckill_order (
  id           INTEGER PRIMARY KEY,
  activity_id  INTEGER NOT NULL,
  user_id      TEXT    NOT NULL,
  status       INTEGER NOT NULL, -- 1 awaiting payment, 2 paid, 3 cancelled, 4 expired
  create_time  TEXT    NOT NULL,
  run          INTEGER NOT NULL,
  ticket       TEXT    NOT NULL UNIQUE,
  slot         INTEGER NULL, -- Number of the purchase among the live ones of the buyer, NULL once it is not.
  quantity     INTEGER NOT NULL,
  amount_cents INTEGER NOT NULL,
  pay_before   TEXT    NOT NULL,
  payment_ref  TEXT    NOT NULL DEFAULT '',
  update_time  TEXT    NOT NULL
) STRICT;

-- user_id leads its key, so that the key serves a buyer's list too.
CREATE UNIQUE INDEX uk_order_activity_user ON seckill_order (user_id, activity_id, run, slot);
-- Only orders that can expire are in here.
CREATE INDEX idx_order_pay_before ON seckill_order (pay_before) WHERE status = 1;
CREATE INDEX idx_order_run ON seckill_order (activity_id, run);

CREATE TABLE seckill_refused (
  ticket      TEXT    NOT NULL PRIMARY KEY,
  activity_id INTEGER NOT NULL,
  run         INTEGER NOT NULL,
  reason      TEXT    NOT NULL,
  create_time TEXT    NOT NULL
) STRICT;

CREATE TABLE seckill_todo (
  id          INTEGER PRIMARY KEY,
  activity_id INTEGER NOT NULL,
  run         INTEGER NOT NULL,
  ticket      TEXT    NOT NULL,
  user_id     TEXT    NOT NULL,
  order_id    INTEGER NULL, -- NULL when the reservation failed.
  reason      TEXT    NOT NULL DEFAULT '',
  written_off INTEGER NOT NULL DEFAULT 0,
  create_time TEXT    NOT NULL
) STRICT;
CREATE INDEX idx_todo_run ON seckill_todo (activity_id, run);

CREATE TABLE seckill_restock (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  activity_id INTEGER NOT NULL,
  run         INTEGER NOT NULL,
  units       INTEGER NOT NULL,
  create_time TEXT    NOT NULL
) STRICT;

CREATE TABLE seckill_dead_letter (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  state       INTEGER NOT NULL, -- 1 waiting, 2 being retried, 3 settled, 4 dropped
  activity_id INTEGER NOT NULL DEFAULT 0,
  run         INTEGER NOT NULL DEFAULT 0,
  ticket      TEXT    NULL UNIQUE, -- NULL when the message could not be read.
  user_id     TEXT    NOT NULL DEFAULT '',
  quantity    INTEGER NOT NULL DEFAULT 0,
  slot        INTEGER NOT NULL DEFAULT 0,
  reserved_at TEXT    NULL,
  payload     BLOB    NOT NULL,
  reason      TEXT    NOT NULL,
  attempts    INTEGER NOT NULL,
  create_time TEXT    NOT NULL,
  update_time TEXT    NOT NULL
) STRICT;
CREATE INDEX idx_dead_letter_state ON seckill_dead_letter (state, id);
CREATE INDEX idx_dead_letter_run ON seckill_dead_letter (activity_id, run);

CREATE TABLE seckill_audit (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  create_time TEXT    NOT NULL,
  who         TEXT    NOT NULL,
  source      TEXT    NOT NULL,
  reason      TEXT    NOT NULL,
  action      TEXT    NOT NULL,
  object      TEXT    NOT NULL,
  detail      TEXT    NOT NULL
) STRICT;

CREATE TABLE seckill_meta (
  name  TEXT    NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT;

INSERT INTO seckill_meta (name, value) VALUES ('control_version', 1);
