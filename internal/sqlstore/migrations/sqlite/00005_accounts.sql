-- +goose Up

-- Who may come in at the operators' door with a password.
CREATE TABLE seckill_account (
  name        TEXT    NOT NULL PRIMARY KEY,
  password    TEXT    NOT NULL, -- argon2id, with its settings.
  role        TEXT    NOT NULL, -- viewer, operator, admin
  disabled    INTEGER NOT NULL DEFAULT 0,
  create_time TEXT    NOT NULL,
  change_time TEXT    NOT NULL
) STRICT;

-- Who has logged in, on whichever node.
CREATE TABLE seckill_session (
  id          TEXT NOT NULL PRIMARY KEY, -- A hash of what the browser holds.
  account     TEXT NOT NULL, -- Empty for the admin token.
  create_time TEXT NOT NULL,
  seen_time   TEXT NOT NULL,
  end_time    TEXT NOT NULL -- It ends then, whatever is done with it.
) STRICT;
CREATE INDEX idx_session_account ON seckill_session (account, create_time);
CREATE INDEX idx_session_end ON seckill_session (end_time);

ALTER TABLE seckill_node ADD COLUMN figures TEXT NULL; -- JSON of what it measured in the last second.
