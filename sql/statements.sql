-- The statements of daemon/store.c. A line "-- name:" begins one.

-- add_session:
INSERT INTO sessions (id, name, owner, directory, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5);

-- find_session:
SELECT id, name, directory, (SELECT max(seq) FROM evaluations WHERE session = sessions.id), limits, reload
  FROM sessions WHERE (id = ?1 OR name = ?1) AND owner = ?2;

-- set_limits:
UPDATE sessions SET limits = ?2 WHERE id = ?1;

-- set_reload:
UPDATE sessions SET reload = ?2 WHERE id = ?1;

-- add_evaluation:
INSERT OR IGNORE INTO evaluations (session, seq, code, text, package, outcome, started_at, elapsed_us, operation)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- add_output:
INSERT OR IGNORE INTO outputs (session, seq, stream, text, is_whole) VALUES (?1, ?2, ?3, ?4, ?5);

-- find_output:
SELECT seq, substr(text, ?4 + 1, ?5), length(text), is_whole FROM outputs
  WHERE session = ?1 AND stream = ?3 AND (?2 = 0 OR seq = ?2) ORDER BY seq DESC LIMIT 1;

-- add_answer:
INSERT OR REPLACE INTO answers (nonce, line, item, answer) VALUES (?1, ?2, ?3, ?4);

-- find_answer:
SELECT answer FROM answers WHERE nonce = ?1 AND line = ?2 AND item = ?3;

-- settle:
DELETE FROM answers WHERE nonce = ?1 AND line <= ?2;

-- save_conversation:
INSERT INTO conversations (nonce, revision, initialize_line, session, saved_at) VALUES (?1, ?2, ?3, ?4, ?5)
  ON CONFLICT (nonce) DO UPDATE SET revision = ?2, initialize_line = ?3, session = ?4, saved_at = ?5;

-- find_conversation:
SELECT revision, initialize_line, session FROM conversations WHERE nonce = ?1;

-- forget_conversation:
DELETE FROM conversations WHERE nonce = ?1;

-- forget_old_conversations:
DELETE FROM conversations WHERE saved_at < ?1;

-- forget_lost_answers:
DELETE FROM answers WHERE nonce NOT IN (SELECT nonce FROM conversations);
