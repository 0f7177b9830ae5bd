-- +goose Up

-- How switches stand; one that was never turned has no row.
CREATE TABLE seckill_switch (
  name        TEXT    NOT NULL PRIMARY KEY,
  value       INTEGER NOT NULL,
  who         TEXT    NOT NULL,
  source      TEXT    NOT NULL,
  reason      TEXT    NOT NULL,
  change_time TEXT    NOT NULL
) STRICT;

-- Changes of switches that are to come.
CREATE TABLE seckill_switch_plan (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  name        TEXT    NOT NULL,
  value       INTEGER NOT NULL,
  at_time     TEXT    NOT NULL,
  who         TEXT    NOT NULL,
  source      TEXT    NOT NULL,
  reason      TEXT    NOT NULL,
  create_time TEXT    NOT NULL
) STRICT;

CREATE TABLE seckill_block (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  kind        TEXT    NOT NULL, -- ip, cidr, user, device
  value       TEXT    NOT NULL,
  until_time  TEXT    NULL,
  automatic   INTEGER NOT NULL DEFAULT 0,
  who         TEXT    NOT NULL,
  source      TEXT    NOT NULL,
  reason      TEXT    NOT NULL,
  create_time TEXT    NOT NULL,
  active      INTEGER NULL, -- 1, or NULL once it was removed.
  version     INTEGER NOT NULL, -- block_version of seckill_meta at its last change.
  update_time TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX uk_block_value ON seckill_block (kind, value, active);
CREATE INDEX idx_block_version ON seckill_block (version);
CREATE INDEX idx_block_until ON seckill_block (until_time) WHERE active = 1;
CREATE INDEX idx_block_removed ON seckill_block (update_time) WHERE active IS NULL;

CREATE TABLE seckill_audience (
  activity_id  INTEGER NOT NULL PRIMARY KEY,
  version      INTEGER NOT NULL, -- The list that holds; 0 if there is none yet.
  last_version INTEGER NOT NULL, -- The last that was begun.
  buyers       INTEGER NOT NULL,
  bytes        INTEGER NOT NULL,
  chunks       INTEGER NOT NULL,
  update_time  TEXT    NOT NULL
) STRICT;

-- Buyers' ids, each with a byte of length before it.
CREATE TABLE seckill_audience_chunk (
  activity_id INTEGER NOT NULL,
  version     INTEGER NOT NULL,
  chunk       INTEGER NOT NULL,
  data        BLOB    NOT NULL,
  PRIMARY KEY (activity_id, version, chunk)
) STRICT;

INSERT INTO seckill_meta (name, value) VALUES
  ('switch_version', 1), ('block_version', 1), ('block_floor', 0), ('block_count', 0), ('audience_version', 1);
