-- +goose Up

-- Processes that serve this database, as they last said of themselves.
CREATE TABLE seckill_node (
  id            TEXT    NOT NULL PRIMARY KEY, -- Drawn by chance when the process started.
  address       TEXT    NOT NULL, -- Where it answers operators.
  roles         TEXT    NOT NULL,
  version       TEXT    NOT NULL,
  start_time    TEXT    NOT NULL,
  seen_time     TEXT    NOT NULL,
  ready         INTEGER NOT NULL,
  reason        TEXT    NOT NULL, -- Why it is not ready.
  stock_name    TEXT    NOT NULL,
  queue_name    TEXT    NOT NULL,
  database_name TEXT    NOT NULL
) STRICT;

-- Keys that all nodes share.
CREATE TABLE seckill_secret (
  purpose    TEXT NOT NULL,
  id         TEXT NOT NULL,
  secret     BLOB NOT NULL,
  not_before TEXT NOT NULL, -- When it begins to sign.
  PRIMARY KEY (purpose, id)
) STRICT;

-- What one start of the program tells the next.
CREATE TABLE seckill_note (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;
