-- Version 3: sessions that have a model, metadata and a state of their own; their conversations as messages; searching.

ALTER TABLE sessions ADD COLUMN model TEXT;
ALTER TABLE sessions ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}'
  CONSTRAINT metadata_fits CHECK (json_valid(metadata) AND length(CAST(metadata AS BLOB)) <= 65536);
ALTER TABLE sessions ADD COLUMN package TEXT NOT NULL DEFAULT 'CL-USER';
ALTER TABLE sessions ADD COLUMN state_file TEXT;                     -- what it was hibernated into; NULL while it has a process
ALTER TABLE sessions ADD COLUMN has_history INTEGER NOT NULL DEFAULT 1; -- 0: evaluations leave no messages
ALTER TABLE sessions ADD COLUMN last_seq INTEGER NOT NULL DEFAULT 0;    -- the last evaluation that was answered
ALTER TABLE sessions ADD COLUMN message_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN stored_bytes INTEGER NOT NULL DEFAULT 0; -- of all messages

CREATE INDEX sessions_by_use ON sessions (owner, updated_at DESC, id DESC);

-- Who used which session from where: what --resume looks for. The higher the number, the later.
CREATE TABLE uses (
  number    INTEGER PRIMARY KEY,
  session   TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  directory TEXT NOT NULL,
  client    TEXT NOT NULL,                 -- its name, '' if it has not told
  UNIQUE (directory, client, session)
) STRICT;

CREATE INDEX uses_of_session ON uses (session);

-- An evaluation is two messages: its code (user) and the text answered (tool). Clients may add their own.
CREATE TABLE messages (
  id         INTEGER PRIMARY KEY,          -- for the index of words
  session    TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  number     INTEGER NOT NULL,             -- from 1, in the order of the conversation
  role       TEXT NOT NULL,
  content    TEXT,                         -- NULL if it was lost with a daemon that was killed
  created_at INTEGER NOT NULL,
  seq        INTEGER,                      -- of the evaluation; NULL if it belongs to none
  operation  TEXT,                         -- NULL: the code was evaluated; otherwise it is the operation's argument
  package    TEXT,                         -- of a result: the current one afterwards
  outcome    INTEGER,                      -- of a result: enum worker_outcome
  elapsed_us INTEGER,                      -- of a result
  is_error   INTEGER NOT NULL DEFAULT 0,
  UNIQUE (session, number)
) STRICT;

CREATE UNIQUE INDEX messages_of_evaluations ON messages (session, seq, role) WHERE seq IS NOT NULL;
CREATE INDEX messages_by_time ON messages (session, created_at);

-- The words of messages, of each its first 64 KiB of characters, and of names.
CREATE VIEW message_contents AS SELECT id, substr(content, 1, 65536) AS content FROM messages;
CREATE VIRTUAL TABLE message_words USING fts5 (content, content = 'message_contents', content_rowid = 'id');
CREATE VIRTUAL TABLE name_words USING fts5 (name, session UNINDEXED);

CREATE TRIGGER name_is_given AFTER INSERT ON sessions WHEN NEW.name IS NOT NULL BEGIN
  INSERT INTO name_words (name, session) VALUES (NEW.name, NEW.id);
END;

CREATE TRIGGER name_is_changed AFTER UPDATE OF name ON sessions BEGIN
  DELETE FROM name_words WHERE session = NEW.id;
  INSERT INTO name_words (name, session) SELECT NEW.name, NEW.id WHERE NEW.name IS NOT NULL;
END;

CREATE TRIGGER name_is_removed AFTER DELETE ON sessions WHEN OLD.name IS NOT NULL BEGIN
  DELETE FROM name_words WHERE session = OLD.id;
END;

-- What was a table of evaluations is taken over into messages.
INSERT INTO name_words (name, session) SELECT name, id FROM sessions WHERE name IS NOT NULL;

INSERT INTO messages (session, number, role, content, created_at, seq, operation)
  SELECT session, 2 * row_number() OVER (PARTITION BY session ORDER BY seq) - 1, 'user', code, started_at, seq, operation
    FROM evaluations;
INSERT INTO messages (session, number, role, content, created_at, seq, package, outcome, elapsed_us, is_error)
  SELECT session, 2 * row_number() OVER (PARTITION BY session ORDER BY seq), 'tool', text, started_at, seq, package, outcome,
    elapsed_us, outcome <> 0 FROM evaluations;
INSERT INTO message_words (message_words) VALUES ('rebuild');
UPDATE sessions SET last_seq = ifnull((SELECT max(seq) FROM evaluations WHERE session = sessions.id), 0),
  message_count = (SELECT count(*) FROM messages WHERE session = sessions.id),
  stored_bytes = ifnull((SELECT sum(length(CAST(content AS BLOB))) FROM messages WHERE session = sessions.id), 0),
  package = ifnull((SELECT nullif(package, '') FROM evaluations WHERE session = sessions.id ORDER BY seq DESC LIMIT 1), package);

CREATE TRIGGER message_is_added AFTER INSERT ON messages BEGIN
  INSERT INTO message_words (rowid, content) VALUES (NEW.id, substr(NEW.content, 1, 65536));
  UPDATE sessions SET updated_at = max(updated_at, unixepoch() + 2208988800), message_count = max(message_count, NEW.number),
    stored_bytes = stored_bytes + ifnull(length(CAST(NEW.content AS BLOB)), 0) WHERE id = NEW.session;
END;

CREATE TRIGGER message_is_removed AFTER DELETE ON messages BEGIN
  INSERT INTO message_words (message_words, rowid, content) VALUES ('delete', OLD.id, substr(OLD.content, 1, 65536));
END;

DROP TRIGGER evaluation_updates_session;
DROP TABLE evaluations;

CREATE VIEW evaluations AS
  SELECT result.session, result.seq, asked.content AS code, result.content AS text, result.package, result.outcome,
      result.created_at AS started_at, result.elapsed_us, asked.operation
    FROM messages AS result JOIN messages AS asked
      ON asked.session = result.session AND asked.seq = result.seq AND asked.role = 'user'
    WHERE result.role = 'tool' AND result.seq IS NOT NULL;

-- One statement records an evaluation. A result that a daemon reports again, after a crash, changes nothing.
CREATE TRIGGER evaluation_is_added INSTEAD OF INSERT ON evaluations BEGIN
  INSERT OR IGNORE INTO messages (session, number, role, content, created_at, seq, operation)
    SELECT id, message_count + 1, 'user', NEW.code, NEW.started_at, NEW.seq, NEW.operation
      FROM sessions WHERE id = NEW.session AND has_history;
  INSERT OR IGNORE INTO messages (session, number, role, content, created_at, seq, package, outcome, elapsed_us, is_error)
    SELECT id, message_count + 1, 'tool', NEW.text, NEW.started_at, NEW.seq, NEW.package, NEW.outcome, NEW.elapsed_us,
      NEW.outcome <> 0 FROM sessions WHERE id = NEW.session AND has_history;
  UPDATE sessions SET last_seq = max(last_seq, NEW.seq), package = ifnull(nullif(NEW.package, ''), package),
    updated_at = max(updated_at, unixepoch() + 2208988800) WHERE id = NEW.session;
END;

-- A session as clients see it.
CREATE VIEW cards AS
  SELECT id, owner, name, updated_at, json_object('id', id, 'name', name, 'created_at', created_at, 'updated_at', updated_at,
      'model', model, 'metadata', json(metadata), 'directory', directory, 'package', package, 'evaluations', last_seq,
      'messages', message_count, 'stored_bytes', stored_bytes,
      'history', json(iif(has_history, 'true', 'false')),
      'hibernated', json(iif(state_file IS NULL, 'false', 'true'))) AS card FROM sessions;

-- A session as it goes to another machine, and how it comes from one: what is inserted becomes rows.
CREATE VIEW transfers AS
  SELECT id, owner, name, directory, created_at, updated_at, model, metadata, package, limits, has_history, last_seq,
      (SELECT json_group_array(json_object('number', number, 'role', role, 'content', content, 'created_at', created_at,
          'evaluation', seq, 'operation', operation, 'package', package, 'outcome', outcome, 'elapsed_us', elapsed_us,
          'is_error', json(iif(is_error, 'true', 'false'))))
        FROM (SELECT * FROM messages WHERE session = sessions.id ORDER BY number)) AS messages,
      NULL AS remarks                      -- what was put right before it could be inserted
    FROM sessions;

CREATE TRIGGER transfer_is_taken INSTEAD OF INSERT ON transfers BEGIN
  INSERT INTO sessions (id, owner, name, directory, created_at, updated_at, model, metadata, package, limits, has_history, last_seq)
    VALUES (NEW.id, NEW.owner, NEW.name, NEW.directory, NEW.created_at, NEW.updated_at, NEW.model, NEW.metadata, NEW.package,
      NEW.limits, NEW.has_history, NEW.last_seq);
  INSERT INTO messages (session, number, role, content, created_at, seq, operation, package, outcome, elapsed_us, is_error)
    SELECT NEW.id, key + 1, value ->> 'role', value ->> 'content', value ->> 'created_at', value ->> 'evaluation',
        value ->> 'operation', value ->> 'package', value ->> 'outcome', value ->> 'elapsed_us', value ->> 'is_error'
      FROM json_each(NEW.messages) ORDER BY key;
  UPDATE sessions SET updated_at = NEW.updated_at WHERE id = NEW.id; -- adding messages counts as a use
END;

-- Not NULL: the answer is made anew by that tool, from this data.
ALTER TABLE answers ADD COLUMN tool TEXT;

ALTER TABLE conversations ADD COLUMN directory TEXT NOT NULL DEFAULT '/';
ALTER TABLE conversations ADD COLUMN client TEXT NOT NULL DEFAULT '';
ALTER TABLE conversations ADD COLUMN has_begun INTEGER NOT NULL DEFAULT 0; -- 1: its session was chosen once
UPDATE conversations SET has_begun = session IS NOT NULL;
