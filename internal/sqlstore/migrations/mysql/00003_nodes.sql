-- +goose Up
-- Data definition is not transactional in MySQL: each statement may be run again.

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
  KEY idx_seen (seen_time)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='Processes that serve this database, as they last said of themselves.';

CREATE TABLE IF NOT EXISTS seckill_secret (
  purpose    VARCHAR(32)    NOT NULL,
  id         VARCHAR(64)    NOT NULL,
  secret     VARBINARY(128) NOT NULL,
  not_before DATETIME(6)    NOT NULL COMMENT 'When it begins to sign.',
  PRIMARY KEY (purpose, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='Keys that all nodes share.';

CREATE TABLE IF NOT EXISTS seckill_note (
  name  VARCHAR(64) NOT NULL PRIMARY KEY,
  value TEXT        NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='What one start of the program tells the next.';
