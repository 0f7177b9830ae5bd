-- +goose Up
-- Data definition is not transactional in MySQL: each statement may be run again.

CREATE TABLE IF NOT EXISTS seckill_activity (
  id                BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name              VARCHAR(255) NOT NULL,
  start_time        DATETIME(6)  NOT NULL COMMENT 'UTC, of the present run',
  end_time          DATETIME(6)  NOT NULL COMMENT 'UTC, of the present run',
  status            TINYINT      NOT NULL DEFAULT 0 COMMENT '0 scheduled, 1 loaded, 2 closed, 3 rebuilding',
  description       TEXT         NOT NULL,
  price_cents       BIGINT       NOT NULL,
  run               INT          NOT NULL,
  epoch             BIGINT       NOT NULL,
  paused            TINYINT      NOT NULL DEFAULT 0,
  limit_per_user    INT          NOT NULL,
  sub_stocks        INT          NOT NULL,
  preload_before_ms BIGINT       NOT NULL,
  payment_window_ms BIGINT       NOT NULL,
  challenge         TINYINT      NOT NULL DEFAULT 0,
  entry_token       TINYINT      NOT NULL DEFAULT 0,
  audience          VARCHAR(16)  NOT NULL,
  create_time       DATETIME(6)  NOT NULL,
  update_time       DATETIME(6)  NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS seckill_stock (
  activity_id     BIGINT      NOT NULL,
  run             INT         NOT NULL,
  total_stock     BIGINT      NOT NULL CHECK (total_stock >= 0),
  available_stock BIGINT      NOT NULL CHECK (available_stock >= 0),
  version         BIGINT      NOT NULL DEFAULT 0,
  marks           BIGINT      NOT NULL DEFAULT 0 COMMENT 'Raised when a ticket of the run is refused or dead.',
  start_time      DATETIME(6) NOT NULL,
  end_time        DATETIME(6) NOT NULL,
  dropped         TINYINT     NOT NULL DEFAULT 0 COMMENT '1 when the stock was told to forget the run.',
  PRIMARY KEY (activity_id, run)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- user_id leads its key, so that the key serves a buyer's list too.
CREATE TABLE IF NOT EXISTS seckill_order (
  id           BIGINT       NOT NULL PRIMARY KEY,
  activity_id  BIGINT       NOT NULL,
  user_id      VARCHAR(65)  NOT NULL,
  status       TINYINT      NOT NULL COMMENT '1 awaiting payment, 2 paid, 3 cancelled, 4 expired',
  create_time  DATETIME(6)  NOT NULL,
  run          INT          NOT NULL,
  ticket       VARCHAR(64)  NOT NULL,
  slot         INT          NULL COMMENT 'Number of the purchase among the live ones of the buyer, NULL once it is not.',
  quantity     INT          NOT NULL,
  amount_cents BIGINT       NOT NULL,
  pay_before   DATETIME(6)  NOT NULL,
  payment_ref  VARCHAR(255) NOT NULL DEFAULT '',
  update_time  DATETIME(6)  NOT NULL,
  UNIQUE KEY uk_ticket (ticket),
  UNIQUE KEY uk_activity_user (user_id, activity_id, run, slot),
  KEY idx_pay_before (status, pay_before),
  KEY idx_run (activity_id, run),
  KEY idx_run_units (activity_id, run, status, quantity)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS seckill_refused (
  ticket      VARCHAR(64) NOT NULL PRIMARY KEY,
  activity_id BIGINT      NOT NULL,
  run         INT         NOT NULL,
  reason      VARCHAR(32) NOT NULL,
  create_time DATETIME(6) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS seckill_todo (
  id          BIGINT      NOT NULL PRIMARY KEY,
  activity_id BIGINT      NOT NULL,
  run         INT         NOT NULL,
  ticket      VARCHAR(64) NOT NULL,
  user_id     VARCHAR(65) NOT NULL,
  order_id    BIGINT      NULL COMMENT 'NULL when the reservation failed.',
  reason      VARCHAR(32) NOT NULL DEFAULT '',
  written_off TINYINT     NOT NULL DEFAULT 0,
  create_time DATETIME(6) NOT NULL,
  KEY idx_run (activity_id, run)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS seckill_restock (
  id          BIGINT      NOT NULL AUTO_INCREMENT PRIMARY KEY,
  activity_id BIGINT      NOT NULL,
  run         INT         NOT NULL,
  units       BIGINT      NOT NULL,
  create_time DATETIME(6) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS seckill_dead_letter (
  id          BIGINT      NOT NULL AUTO_INCREMENT PRIMARY KEY,
  state       TINYINT     NOT NULL COMMENT '1 waiting, 2 being retried, 3 settled, 4 dropped',
  activity_id BIGINT      NOT NULL DEFAULT 0,
  run         INT         NOT NULL DEFAULT 0,
  ticket      VARCHAR(64) NULL COMMENT 'NULL when the message could not be read.',
  user_id     VARCHAR(65) NOT NULL DEFAULT '',
  quantity    INT         NOT NULL DEFAULT 0,
  slot        INT         NOT NULL DEFAULT 0,
  reserved_at DATETIME(6) NULL,
  payload     LONGBLOB    NOT NULL,
  reason      TEXT        NOT NULL,
  attempts    INT         NOT NULL,
  create_time DATETIME(6) NOT NULL,
  update_time DATETIME(6) NOT NULL,
  UNIQUE KEY uk_ticket (ticket),
  KEY idx_state (state, id),
  KEY idx_run (activity_id, run)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS seckill_audit (
  id          BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  create_time DATETIME(6)  NOT NULL,
  who         VARCHAR(255) NOT NULL,
  source      VARCHAR(255) NOT NULL,
  reason      TEXT         NOT NULL,
  action      VARCHAR(64)  NOT NULL,
  object      VARCHAR(128) NOT NULL,
  detail      TEXT         NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS seckill_meta (
  name  VARCHAR(64) NOT NULL PRIMARY KEY,
  value BIGINT      NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO seckill_meta (name, value) VALUES ('control_version', 1) ON DUPLICATE KEY UPDATE value = value;
