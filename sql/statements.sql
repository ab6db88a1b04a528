-- The statements of daemon/store.c. A line "-- name:" begins one.

-- add_session:
INSERT INTO sessions (id, name, owner, directory, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5);

-- find_session:
SELECT id, name, directory, last_seq, limits, reload FROM sessions WHERE (id = ?1 OR name = ?1) AND owner = ?2;

-- set_limits:
UPDATE sessions SET limits = ?2 WHERE id = ?1;

-- set_reload:
UPDATE sessions SET reload = ?2 WHERE id = ?1;

-- add_evaluation:
INSERT INTO evaluations (session, seq, code, text, package, outcome, started_at, elapsed_us, operation)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- add_output:
INSERT OR IGNORE INTO outputs (session, seq, stream, text, is_whole) VALUES (?1, ?2, ?3, ?4, ?5);

-- find_output:
SELECT seq, substr(text, ?4 + 1, ?5), length(text), is_whole FROM outputs
  WHERE session = ?1 AND stream = ?3 AND (?2 = 0 OR seq = ?2) ORDER BY seq DESC LIMIT 1;

-- add_answer:
INSERT OR REPLACE INTO answers (nonce, line, item, tool, answer) VALUES (?1, ?2, ?3, ?4, ?5);

-- find_answer:
SELECT answer, tool FROM answers WHERE nonce = ?1 AND line = ?2 AND item = ?3;

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

-- The statements of tools make JSON, in one row. Of all of them ?1 is the owner; of those for one session ?2 is its id or
-- name.

-- create_session:
INSERT INTO sessions (owner, id, name, directory, model, metadata, has_history, limits, created_at, updated_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ifnull(?6, '{}'), ?7, ?8, ?9, ?9)
  RETURNING json_object('id', id, 'name', name);

-- list_sessions:
SELECT json_object('total', (SELECT count(*) FROM sessions WHERE owner = ?1),
    'sessions', json_group_array(json(card)) FILTER (WHERE place <= ?4),
    'more', json(iif(count(*) > ?4, 'true', 'false')))
  FROM (SELECT card, row_number() OVER () AS place FROM
    (SELECT card FROM cards WHERE owner = ?1 AND (?2 IS NULL OR (updated_at, id) < (?2, ?3))
      ORDER BY updated_at DESC, id DESC LIMIT ?4 + 1));

-- show_session:
SELECT card FROM cards WHERE owner = ?1 AND (id = ?2 OR name = ?2);

-- rename_session:
UPDATE sessions SET name = ?3 WHERE owner = ?1 AND (id = ?2 OR name = ?2) RETURNING json_object('id', id, 'name', name);

-- delete_session:
DELETE FROM sessions WHERE owner = ?1 AND id = ?2 RETURNING json_object('id', id, 'name', name, 'messages', message_count);

-- use_session:
INSERT OR IGNORE INTO uses (session, directory, client) SELECT id, ?3, ?4 FROM sessions WHERE owner = ?1 AND id = ?2;

-- last_used_session:
SELECT json_object('id', id) FROM sessions
  WHERE owner = ?1 AND id IN (SELECT session FROM uses WHERE directory = ?2 AND client = ?3)
  ORDER BY updated_at DESC, id DESC LIMIT 1;
