//! The sandbox's tables in `cloud.db`.

pub(crate) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS sandbox_keys (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    keys TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS sandbox_payments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    provider TEXT NOT NULL,
    number TEXT NOT NULL,
    payment_id TEXT NOT NULL UNIQUE,
    transaction_id TEXT NOT NULL UNIQUE,
    payment TEXT NOT NULL,
    open INTEGER NOT NULL,
    opened INTEGER NOT NULL,
    ended TEXT,
    refunded INTEGER NOT NULL DEFAULT 0,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS sandbox_payments_by_number ON sandbox_payments (number);
CREATE INDEX IF NOT EXISTS sandbox_payments_by_expiry ON sandbox_payments (expires_ms) WHERE open = 1;
CREATE TABLE IF NOT EXISTS sandbox_refunds (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    provider TEXT NOT NULL,
    refund TEXT NOT NULL,
    transaction_id TEXT NOT NULL,
    amount INTEGER NOT NULL,
    at_ms INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS sandbox_refunds_by_number ON sandbox_refunds (refund);
CREATE INDEX IF NOT EXISTS sandbox_refunds_by_payment ON sandbox_refunds (transaction_id);
CREATE TABLE IF NOT EXISTS sandbox_refund_states (
    refund INTEGER PRIMARY KEY,
    state TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS sandbox_money (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    provider TEXT NOT NULL,
    number TEXT NOT NULL,
    transaction_id TEXT NOT NULL,
    refund TEXT,
    amount INTEGER NOT NULL,
    currency TEXT NOT NULL,
    at_ms INTEGER NOT NULL
);
CREATE TRIGGER IF NOT EXISTS sandbox_money_stays BEFORE UPDATE ON sandbox_money
    BEGIN SELECT raise(ABORT, 'money that moved stays on the books'); END;
CREATE TRIGGER IF NOT EXISTS sandbox_money_is_kept BEFORE DELETE ON sandbox_money
    BEGIN SELECT raise(ABORT, 'money that moved stays on the books'); END;
CREATE TABLE IF NOT EXISTS sandbox_answers (
    key TEXT PRIMARY KEY,
    request TEXT NOT NULL,
    answer TEXT NOT NULL,
    at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sandbox_answers_by_time ON sandbox_answers (at_ms);
CREATE TABLE IF NOT EXISTS sandbox_notices (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    payment INTEGER NOT NULL,
    happened TEXT NOT NULL,
    told TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    due_ms INTEGER,
    accepted_ms INTEGER
);
CREATE INDEX IF NOT EXISTS sandbox_notices_by_time ON sandbox_notices (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX IF NOT EXISTS sandbox_notices_by_payment ON sandbox_notices (payment);
";
