-- +goose Up
-- Data definition is not transactional in MySQL: each statement may be run again.

CREATE TABLE IF NOT EXISTS seckill_webhook (
  id          BIGINT        NOT NULL AUTO_INCREMENT PRIMARY KEY,
  url         VARCHAR(2048) NOT NULL,
  events      VARCHAR(255)  NOT NULL COMMENT 'Comma-separated.',
  secret      VARCHAR(128)  NOT NULL,
  old_secret  VARCHAR(128)  NOT NULL DEFAULT '' COMMENT 'Signs beside the other until old_until.',
  old_until   DATETIME(6)   NULL,
  create_time DATETIME(6)   NOT NULL,
  disabled    TINYINT       NOT NULL DEFAULT 0,
  reason      VARCHAR(512)  NOT NULL DEFAULT '' COMMENT 'Why it is disabled.',
  failures    INT           NOT NULL DEFAULT 0 COMMENT 'In a row.',
  resume_time DATETIME(6)   NOT NULL COMMENT 'Nothing is sent before.',
  lease_owner VARCHAR(64)   NOT NULL DEFAULT '' COMMENT 'The one sender that works for it, until lease_until.',
  lease_until DATETIME(6)   NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS seckill_webhook_delivery (
  id             BIGINT      NOT NULL PRIMARY KEY,
  webhook_id     BIGINT      NOT NULL,
  ticket         VARCHAR(64) NOT NULL,
  step           TINYINT     NOT NULL COMMENT 'Place of the event among those of its ticket.',
  order_id       BIGINT      NULL COMMENT 'NULL when the reservation failed.',
  event          VARCHAR(32) NOT NULL,
  payload        MEDIUMTEXT  NOT NULL,
  state          TINYINT     NOT NULL DEFAULT 0 COMMENT '0 pending, 1 delivered, 2 given up',
  attempts       INT         NOT NULL DEFAULT 0,
  last_error     TEXT        NOT NULL,
  create_time    DATETIME(6) NOT NULL,
  since_time     DATETIME(6) NOT NULL COMMENT 'Retries end a day after it.',
  next_time      DATETIME(6) NOT NULL COMMENT 'Of the next attempt; of the last one when it is not pending.',
  delivered_time DATETIME(6) NULL,
  KEY idx_list (webhook_id, id),
  KEY idx_due (webhook_id, state, next_time),
  KEY idx_ticket (webhook_id, ticket)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='Events, written in the transaction of what they tell of.';

INSERT INTO seckill_meta (name, value) VALUES ('webhook_version', 1) ON DUPLICATE KEY UPDATE value = value;
