-- +goose Up
-- Data definition is not transactional in MySQL: each statement may be run again.

CREATE TABLE IF NOT EXISTS seckill_account (
  name        VARCHAR(64)  NOT NULL PRIMARY KEY,
  password    VARCHAR(255) NOT NULL COMMENT 'argon2id, with its settings.',
  role        VARCHAR(16)  NOT NULL COMMENT 'viewer, operator, admin',
  disabled    TINYINT      NOT NULL DEFAULT 0,
  create_time DATETIME(6)  NOT NULL,
  change_time DATETIME(6)  NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='Who may come in at the operators'' door with a password.';

CREATE TABLE IF NOT EXISTS seckill_session (
  id          CHAR(64)     NOT NULL PRIMARY KEY COMMENT 'A hash of what the browser holds.',
  account     VARCHAR(64)  NOT NULL COMMENT 'Empty for the admin token.',
  create_time DATETIME(6)  NOT NULL,
  seen_time   DATETIME(6)  NOT NULL,
  end_time    DATETIME(6)  NOT NULL COMMENT 'It ends then, whatever is done with it.',
  KEY idx_account (account, create_time),
  KEY idx_end (end_time)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='Who has logged in, on whichever node.';

-- A list of who lives now: each node enters itself again within a second.
DROP TABLE IF EXISTS seckill_node;

CREATE TABLE IF NOT EXISTS seckill_node (
  id            VARCHAR(64)  NOT NULL PRIMARY KEY COMMENT 'Drawn by chance when the process started.',
  address       VARCHAR(255) NOT NULL COMMENT 'Where it answers operators.',
  roles         VARCHAR(64)  NOT NULL,
  version       VARCHAR(64)  NOT NULL,
  start_time    DATETIME(6)  NOT NULL,
  seen_time     DATETIME(6)  NOT NULL,
  ready         TINYINT      NOT NULL,
  reason        TEXT         NOT NULL COMMENT 'Why it is not ready.',
  stock_name    VARCHAR(255) NOT NULL,
  queue_name    VARCHAR(255) NOT NULL,
  database_name VARCHAR(255) NOT NULL,
  figures       TEXT         NULL COMMENT 'JSON of what it measured in the last second.',
  KEY idx_seen (seen_time)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='Processes that serve this database, as they last said of themselves.';
