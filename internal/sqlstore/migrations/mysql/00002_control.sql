-- +goose Up
-- Data definition is not transactional in MySQL: each statement may be run again.

CREATE TABLE IF NOT EXISTS seckill_switch (
  name        VARCHAR(64)  NOT NULL PRIMARY KEY,
  value       BIGINT       NOT NULL,
  who         VARCHAR(255) NOT NULL,
  source      VARCHAR(255) NOT NULL,
  reason      TEXT         NOT NULL,
  change_time DATETIME(6)  NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='How switches stand; one that was never turned has no row.';

CREATE TABLE IF NOT EXISTS seckill_switch_plan (
  id          BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name        VARCHAR(64)  NOT NULL,
  value       BIGINT       NOT NULL,
  at_time     DATETIME(6)  NOT NULL,
  who         VARCHAR(255) NOT NULL,
  source      VARCHAR(255) NOT NULL,
  reason      TEXT         NOT NULL,
  create_time DATETIME(6)  NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='Changes of switches that are to come.';

CREATE TABLE IF NOT EXISTS seckill_block (
  id          BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  kind        VARCHAR(8)   NOT NULL COMMENT 'ip, cidr, user, device',
  value       VARCHAR(160) NOT NULL,
  until_time  DATETIME(6)  NULL,
  automatic   TINYINT      NOT NULL DEFAULT 0,
  who         VARCHAR(255) NOT NULL,
  source      VARCHAR(255) NOT NULL,
  reason      TEXT         NOT NULL,
  create_time DATETIME(6)  NOT NULL,
  active      TINYINT      NULL COMMENT '1, or NULL once it was removed.',
  version     BIGINT       NOT NULL COMMENT 'block_version of seckill_meta at its last change.',
  update_time DATETIME(6)  NOT NULL,
  UNIQUE KEY uk_value (kind, value, active),
  KEY idx_version (version),
  KEY idx_until (active, until_time),
  KEY idx_removed (active, update_time)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS seckill_audience (
  activity_id  BIGINT      NOT NULL PRIMARY KEY,
  version      BIGINT      NOT NULL COMMENT 'The list that holds; 0 if there is none yet.',
  last_version BIGINT      NOT NULL COMMENT 'The last that was begun.',
  buyers       BIGINT      NOT NULL,
  bytes        BIGINT      NOT NULL,
  chunks       INT         NOT NULL,
  update_time  DATETIME(6) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS seckill_audience_chunk (
  activity_id BIGINT     NOT NULL,
  version     BIGINT     NOT NULL,
  chunk       INT        NOT NULL,
  data        MEDIUMBLOB NOT NULL COMMENT 'Ids of buyers, each with a byte of length before it.',
  PRIMARY KEY (activity_id, version, chunk)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO seckill_meta (name, value) VALUES
  ('switch_version', 1), ('block_version', 1), ('block_floor', 0), ('block_count', 0), ('audience_version', 1)
  ON DUPLICATE KEY UPDATE value = value;
