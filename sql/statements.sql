-- The statements of daemon/store.c. A line "-- name:" begins one.

-- add_session:
INSERT INTO sessions (id, name, owner, directory, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5);

-- restore_session:
INSERT OR IGNORE INTO sessions (id, name, owner, directory, created_at, updated_at, has_history, limits, package, last_seq)
  VALUES (?1, iif(EXISTS (SELECT 1 FROM sessions WHERE owner = ?3 AND name = ?2), NULL, ?2), ?3, ?4, ?5,
    max(?5, unixepoch() + 2208988800), ?6, ?7, ifnull(?8, 'CL-USER'), ?9);

-- find_session:
SELECT id, name, directory, last_seq, limits, reload, created_at, has_history, state_file, forgotten_seq FROM sessions
  WHERE (id = ?1 OR name = ?1) AND owner = ?2;

-- set_limits:
UPDATE sessions SET limits = ?2 WHERE id = ?1;

-- set_reload:
-- What was evaluated before a reset that is complete is not the session's any more.
UPDATE sessions SET reload = ?2, forgotten_seq = iif(?2 IS NULL, last_seq, forgotten_seq) WHERE id = ?1;

-- set_state_file:
UPDATE sessions SET state_file = ?2 WHERE id = ?1;

-- add_evaluation:
INSERT INTO evaluations (session, seq, code, text, package, outcome, started_at, elapsed_us, operation, restored, given, forms)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12);

-- recollect:
-- What ?1 has evaluated since its state was written after ?2, as lisp/recollection.lisp reads it; of the code the newest ?3 bytes.
-- A state that was rolled back since, or comes before a reset, is none: then the number in front is not smaller.
WITH RECURSIVE session AS (SELECT id, forgotten_seq FROM sessions WHERE id = ?1),
  rollbacks AS (SELECT seq, restored FROM messages WHERE session = ?1 AND restored IS NOT NULL AND restored < seq),
  branch (first, last) AS (
    SELECT ifnull((SELECT max(seq) FROM rollbacks), 0), 9223372036854775807
    UNION
    SELECT ifnull((SELECT max(earlier.seq) FROM rollbacks AS earlier WHERE earlier.seq <= rollbacks.restored), 0), restored
      FROM branch JOIN rollbacks ON seq = first),
  base AS (SELECT iif(is_there, 0, ?2) AS lost, max(forgotten_seq, iif(is_there, ?2, 0)) AS since, forgotten_seq
    FROM (SELECT EXISTS (SELECT 1 FROM branch WHERE ?2 BETWEEN first AND last) AS is_there), session),
  since AS (SELECT seq, outcome, ifnull(forms, 0) AS forms, operation, given, package, code,
      sum(length(CAST(code AS BLOB))) OVER (ORDER BY seq DESC) AS size
    FROM evaluations WHERE session = ?1 AND seq > (SELECT since FROM base)
      AND (operation IS NULL OR operation IN ('load-system', 'reload-systems'))
      AND EXISTS (SELECT 1 FROM branch WHERE seq BETWEEN first AND last)),
  escaped AS (SELECT seq, outcome, forms, replace(replace(operation, char(92), char(92, 92)), char(34), char(92, 34)) AS operation,
      replace(replace(given, char(92), char(92, 92)), char(34), char(92, 34)) AS given,
      replace(replace(package, char(92), char(92, 92)), char(34), char(92, 34)) AS package,
      replace(replace(iif(size <= ?3, code, NULL), char(92), char(92, 92)), char(34), char(92, 34)) AS code FROM since),
  records AS (SELECT '(' || seq || ' ' || outcome || ' ' || forms || ' ' || ifnull(char(34) || operation || char(34), '()') || ' ' ||
      ifnull(char(34) || given || char(34), '()') || ' ' || ifnull(char(34) || package || char(34), '()') || ' ' ||
      ifnull(char(34) || code || char(34), '()') || ')' AS record FROM escaped ORDER BY seq)
SELECT max(forgotten_seq, lost) || char(10) || ifnull((SELECT group_concat(record, char(10)) FROM records), '') FROM base;

-- skip_evaluation:
-- ?3 is the package afterwards, NULL if it counts as no use of the session.
UPDATE sessions SET last_seq = max(last_seq, ?2), package = ifnull(nullif(?3, ''), package),
  updated_at = iif(?3 IS NULL, updated_at, max(updated_at, unixepoch() + 2208988800)) WHERE id = ?1;

-- merge_words:
INSERT INTO message_words (message_words, rank) VALUES ('merge', ?1);

-- used_bytes:
SELECT stored_bytes FROM owners WHERE owner = ?1;

-- find_unused:
-- Since ?2; the longest unused ones first, ?3 of them.
SELECT group_concat(id, ' ') FROM
  (SELECT id FROM sessions WHERE owner = ?1 AND updated_at < ?2 ORDER BY updated_at LIMIT ?3);

-- delete_unused:
DELETE FROM sessions WHERE id = ?1 AND updated_at < ?2 RETURNING 1;

-- add_output:
INSERT OR IGNORE INTO outputs (session, seq, stream, text, is_whole)
  SELECT id, ?2, ?3, ?4, ?5 FROM sessions WHERE id = ?1 AND has_history;

-- find_output:
SELECT seq, substr(text, ?4 + 1, ?5), length(text), is_whole FROM outputs
  WHERE session = ?1 AND stream = ?3 AND (?2 = 0 OR seq = ?2) ORDER BY seq DESC LIMIT 1;

-- add_answer:
INSERT OR REPLACE INTO answers (nonce, line, item, tool, answer) VALUES (?1, ?2, ?3, ?4, ?5);

-- find_answer:
SELECT answer, tool FROM answers WHERE nonce = ?1 AND line = ?2 AND item = ?3;

-- settle:
DELETE FROM answers WHERE nonce = ?1 AND line <= ?2 AND line NOT IN (SELECT value FROM json_each(?3));

-- save_conversation:
INSERT INTO conversations (nonce, revision, initialize_line, session, has_begun, directory, client, saved_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
  ON CONFLICT (nonce) DO UPDATE SET revision = ?2, initialize_line = ?3, session = ?4, has_begun = ?5, directory = ?6,
    client = ?7, saved_at = ?8;

-- find_conversation:
SELECT revision, initialize_line, (SELECT id FROM sessions WHERE id = session), has_begun, nullif(client, ''),
    (SELECT json_group_array(json_object('uri', uri, 'session', session)) FROM subscriptions WHERE nonce = ?1)
  FROM conversations WHERE nonce = ?1;

-- forget_conversation:
DELETE FROM conversations WHERE nonce = ?1;

-- forget_old_conversations:
DELETE FROM conversations WHERE saved_at < ?1;

-- use_session:
INSERT OR REPLACE INTO uses (session, directory, client)
  SELECT sessions.id, conversations.directory, client FROM sessions, conversations WHERE nonce = ?1 AND sessions.id = ?2;

-- last_used_session:
SELECT sessions.id FROM uses JOIN sessions ON sessions.id = session
  WHERE owner = ?1 AND uses.directory = ?2 AND client = ?3 ORDER BY number DESC LIMIT 1;

-- forget_lost_answers:
DELETE FROM answers WHERE nonce NOT IN (SELECT nonce FROM conversations);

-- mend_message_times:
-- ?1 is now, ?2 the last time that can be.
UPDATE messages SET created_at = ?1
  WHERE created_at > ?2 AND session IN (SELECT id FROM sessions WHERE updated_at > ?2) RETURNING session;

-- mend_session_times:
UPDATE sessions SET created_at = min(created_at, ?1), updated_at = ?1 WHERE updated_at > ?2 RETURNING id;

-- rebuild_words:
INSERT INTO message_words (message_words) VALUES ('rebuild');
INSERT INTO name_words (name_words) VALUES ('rebuild');

-- find_births:
SELECT group_concat(id, ' ') FROM births;

-- forget_birth:
DELETE FROM births WHERE id = ?1;

-- The statements of tools make JSON, in one row. Of all of them ?1 is the owner; of those for one session ?2 is its id or
-- name.

-- create_session:
-- Of a clone ?10 is the package, and ?11 tells where it comes from.
INSERT INTO sessions (owner, id, name, directory, model, metadata, has_history, limits, created_at, updated_at, package)
  VALUES (?1, ?2, ?3, ?4, ?5, iif(?11 IS NULL, ifnull(?6, '{}'), json_set(ifnull(?6, '{}'), '$.cloned_from', json(?11))), ?7, ?8,
    ?9, ?9, ifnull(?10, 'CL-USER'))
  RETURNING json_object('id', id, 'name', name, 'cloned_from', json(?11));

-- plan_clone:
-- ?2 is the original, ?3 and ?4 are the id and the name that the clone will have.
INSERT INTO births (owner, id, name, original)
  SELECT owner, ?3, ?4, id FROM sessions WHERE owner = ?1 AND (id = ?2 OR name = ?2)
  RETURNING json_object('id', id, 'original', original);

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

-- show_history:
-- After ?3, or else the last ones before ?4, or else those up to the last error; from the time ?5 to ?6; at most ?7 of them, ?8 characters of each.
-- In effect are the evaluations from the last one on with which a state came back, then those that had led to that state, down to
-- the last one before it with which a state came back, and so on.
WITH RECURSIVE session AS (SELECT id, name, message_count FROM sessions WHERE owner = ?1 AND (id = ?2 OR name = ?2)),
  rollbacks AS (SELECT seq, restored FROM messages
    WHERE session = (SELECT id FROM session) AND restored IS NOT NULL AND restored < seq),
  branch (first, last) AS (
    SELECT ifnull((SELECT max(seq) FROM rollbacks), 0), 9223372036854775807
    UNION
    SELECT ifnull((SELECT max(earlier.seq) FROM rollbacks AS earlier WHERE earlier.seq <= rollbacks.restored), 0), restored
      FROM branch JOIN rollbacks ON seq = first),
  found AS (
    SELECT * FROM (SELECT * FROM messages WHERE ?3 IS NOT NULL AND session = (SELECT id FROM session) AND number > ?3
        AND number < ?4 AND created_at BETWEEN ?5 AND ?6 ORDER BY number LIMIT ?7 + 1)
    UNION ALL
    SELECT * FROM (SELECT * FROM messages WHERE ?3 IS NULL AND session = (SELECT id FROM session)
        AND number < ifnull(?4, (SELECT max(number) + 1 FROM messages WHERE session = (SELECT id FROM session) AND is_error))
        AND created_at BETWEEN ?5 AND ?6 ORDER BY number DESC LIMIT ?7 + 1)),
  numbered AS (SELECT *, row_number() OVER () AS place FROM found),
  page AS (SELECT * FROM numbered WHERE place <= ?7 ORDER BY number)
SELECT json_object('session', id, 'name', name, 'total', message_count,
    'messages', (SELECT json_group_array(json_object('number', number, 'role', role, 'content', substr(content, 1, ?8),
        'is_cut', json(iif(length(content) > ?8, 'true', 'false')), 'characters', length(content), 'created_at', created_at,
        'evaluation', seq, 'operation', operation, 'package', package, 'elapsed_ms', round(elapsed_us / 1000.0, 3),
        'undone', json(iif(seq IS NULL OR EXISTS (SELECT 1 FROM branch WHERE seq BETWEEN first AND last), 'false', 'true')),
        'is_error', json(iif(is_error, 'true', 'false')))) FROM page),
    'next', CASE WHEN (SELECT count(*) FROM numbered) <= ?7 THEN NULL
      WHEN ?3 IS NULL THEN json_object('before', (SELECT min(number) FROM page))
      ELSE json_object('after', (SELECT max(number) FROM page)) END)
  FROM session;

-- search_sessions:
-- ?3 is what FTS5 shall match; of messages the newest first, from before ?4, at most ?5. In one session ids go up with numbers.
WITH wanted AS (SELECT id FROM sessions WHERE ?2 IS NOT NULL AND owner = ?1 AND (id = ?2 OR name = ?2)),
  span AS (SELECT
      CASE WHEN ?2 IS NULL THEN 0
        ELSE (SELECT id FROM messages WHERE session = (SELECT id FROM wanted) ORDER BY number LIMIT 1) END AS first,
      CASE WHEN ?2 IS NULL THEN ?4 - 1 ELSE
        min(?4 - 1, (SELECT id FROM messages WHERE session = (SELECT id FROM wanted) ORDER BY number DESC LIMIT 1)) END AS last),
  hits AS (
    SELECT messages.id AS id, row_number() OVER () AS place, json_object('session', sessions.id, 'name', name,
        'number', number, 'role', role, 'evaluation', seq, 'created_at', messages.created_at,
        'is_error', json(iif(is_error, 'true', 'false')), 'text',
        iif(length(shown) <= 2000, shown, iif(instr(shown, '«') > 1000, '…', '') ||
          substr(shown, max(1, instr(shown, '«') - 999), 2000) || '…')) AS hit
      FROM (SELECT rowid AS word_id, snippet(message_words, 0, '«', '»', '…', 24) AS shown FROM message_words
          WHERE message_words MATCH ?3 AND rowid BETWEEN (SELECT first FROM span) AND (SELECT last FROM span)
          ORDER BY rowid DESC)
        CROSS JOIN messages ON messages.id = word_id CROSS JOIN sessions ON sessions.id = session
      WHERE owner = ?1 AND (?2 IS NULL OR sessions.id = ?2 OR name = ?2) LIMIT ?5 + 1)
SELECT json_object(
    'names', (SELECT json_group_array(json_object('session', id, 'name', name)) FROM
      (SELECT id, sessions.name AS name FROM name_words JOIN sessions ON id = session
        WHERE name_words MATCH ?3 AND owner = ?1 AND (?2 IS NULL OR id = ?2 OR sessions.name = ?2) AND ?4 = 9223372036854775807
        ORDER BY updated_at DESC LIMIT ?5)),
    'hits', (SELECT json_group_array(json(hit)) FROM hits WHERE place <= ?5),
    'next_before', iif((SELECT count(*) FROM hits) > ?5, (SELECT min(id) FROM hits WHERE place <= ?5), NULL))
  WHERE ?2 IS NULL OR EXISTS (SELECT 1 FROM wanted);

-- add_message:
INSERT INTO messages (session, number, role, content, created_at)
  SELECT id, message_count + 1, ?3, ?4, ?5 FROM sessions WHERE owner = ?1 AND (id = ?2 OR name = ?2)
  RETURNING json_object('session', session, 'number', number, 'role', role, 'created_at', created_at);

-- set_metadata:
-- ?3 is merged in, a null removes; ?4 and ?5 are tokens to add, ?6 a model, each of them may be NULL.
UPDATE sessions SET metadata = new.metadata, model = ifnull(?6, model), updated_at = max(updated_at, unixepoch() + 2208988800)
  FROM (SELECT id, json_patch(metadata, iif(?5 IS NULL, '{}',
      json_object('total_output_tokens', ifnull(metadata ->> '$.total_output_tokens', 0) + ?5))) AS metadata
    FROM (SELECT id, json_patch(metadata, iif(?4 IS NULL, '{}',
        json_object('total_input_tokens', ifnull(metadata ->> '$.total_input_tokens', 0) + ?4))) AS metadata
      FROM (SELECT id, json_patch(metadata, ?3) AS metadata FROM sessions
        WHERE owner = ?1 AND (id = ?2 OR name = ?2)))) AS new
  WHERE sessions.id = new.id
  RETURNING json_object('id', id, 'model', model, 'metadata', json(metadata));

-- complete_session:
-- Names and ids that begin with ?2, at most ?3 of them.
WITH found AS (SELECT value, updated_at, kind FROM
    (SELECT name AS value, updated_at, 1 AS kind FROM sessions WHERE owner = ?1 AND name IS NOT NULL
      UNION ALL SELECT id, updated_at, 2 FROM sessions WHERE owner = ?1)
  WHERE substr(value, 1, length(?2)) = ?2)
SELECT json_object('total', count(*), 'hasMore', json(iif(count(*) > ?3, 'true', 'false')), 'values',
    (SELECT json_group_array(value) FROM (SELECT value FROM found ORDER BY updated_at DESC, kind LIMIT ?3)))
  FROM found;

-- subscribe:
-- ?2 is the conversation, ?4 NULL or the session, ?5 how many subscriptions it may have.
INSERT OR REPLACE INTO subscriptions (nonce, uri, session)
  SELECT ?2, ?3, id FROM (SELECT NULL AS id WHERE ?4 IS NULL
      UNION ALL SELECT id FROM sessions WHERE owner = ?1 AND (id = ?4 OR name = ?4))
    WHERE (SELECT count(*) FROM subscriptions WHERE nonce = ?2 AND uri <> ?3) < ?5
  RETURNING json_object('session', session);

-- unsubscribe:
DELETE FROM subscriptions WHERE nonce = ?2 AND uri = ?3 RETURNING json_object('uri', uri);

-- find_resources:
-- ?2 is a list of {"uri", "session"}; at most ?3 of those that are there come back, with the id.
SELECT json_group_array(json_object('uri', uri, 'session', id)) FROM
  (SELECT uri, id FROM (SELECT DISTINCT value ->> 'uri' AS uri, value ->> 'session' AS wanted FROM json_each(?2))
      LEFT JOIN sessions ON owner = ?1 AND (id = wanted OR name = wanted)
    WHERE wanted IS NULL OR id IS NOT NULL LIMIT ?3);

-- export_session:
-- The file's name, ?3, comes back for whoever writes it.
SELECT json_object('format', 'cl-mcp-session', 'version', 1, 'id', id, 'name', name, 'created_at', created_at,
    'updated_at', updated_at, 'model', model, 'metadata', json(metadata), 'directory', directory, 'package', package,
    'limits', limits, 'history', json(iif(has_history, 'true', 'false')), 'evaluations', last_seq,
    'conversation', json_object('messages', json(messages))), ?3, json_array_length(messages), id
  FROM transfers WHERE owner = ?1 AND (id = ?2 OR name = ?2);

-- import_session:
-- ?2 is a document that transfer.c has checked, ?3 the id if its own is somebody else's.
INSERT INTO transfers (id, owner, name, directory, created_at, updated_at, model, metadata, package, limits, has_history,
    last_seq, messages, remarks)
  SELECT iif(EXISTS (SELECT 1 FROM sessions WHERE id = document ->> 'id' AND owner <> ?1), ?3, document ->> 'id'), ?1,
      document ->> 'name', document ->> 'directory', document ->> 'created_at', document ->> 'updated_at',
      document ->> 'model', document -> 'metadata', document ->> 'package', document ->> 'limits', document ->> 'history',
      document ->> 'evaluations', document -> 'conversation' -> 'messages', document -> 'remarks'
    FROM (SELECT ?2 AS document)
  RETURNING json_object('id', id, 'name', name, 'messages', json_array_length(messages), 'remarks', json(remarks));
