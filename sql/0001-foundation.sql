-- Version 1: sessions, their evaluations, and what a restarted daemon needs to go on with its clients.
-- Times are universal times: seconds since 1900-01-01T00:00:00Z.

CREATE TABLE sessions (
  id         TEXT PRIMARY KEY NOT NULL CHECK (length(id) = 28),
  name       TEXT,
  owner      INTEGER NOT NULL,             -- uid
  directory  TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL CHECK (updated_at >= created_at)
) STRICT;

CREATE UNIQUE INDEX session_names ON sessions (owner, name) WHERE name IS NOT NULL;

CREATE TABLE evaluations (
  session    TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  seq        INTEGER NOT NULL,
  code       TEXT,                         -- NULL if it was lost with a daemon that was killed
  text       TEXT NOT NULL,                -- as answered
  package    TEXT NOT NULL,
  outcome    INTEGER NOT NULL,             -- enum worker_outcome
  started_at INTEGER NOT NULL,
  elapsed_us INTEGER NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT;

CREATE TRIGGER evaluation_updates_session AFTER INSERT ON evaluations BEGIN
  UPDATE sessions SET updated_at = max(updated_at, NEW.started_at) WHERE id = NEW.session;
END;

-- What a shim and the daemon agreed on, by the shim's nonce.
CREATE TABLE conversations (
  nonce           BLOB PRIMARY KEY NOT NULL,
  revision        TEXT,
  initialize_line INTEGER NOT NULL,
  session         TEXT,
  saved_at        INTEGER NOT NULL
) STRICT;

-- Answers that their shims may ask for again. NULL: cancelled, nothing is to be said.
CREATE TABLE answers (
  nonce  BLOB NOT NULL,
  line   INTEGER NOT NULL,
  item   INTEGER NOT NULL,
  answer TEXT,
  PRIMARY KEY (nonce, line, item)
) STRICT;
