-- Version 7: what conversations want to hear of, for as long as they last.

CREATE TABLE subscriptions (
  nonce   BLOB NOT NULL REFERENCES conversations (nonce) ON DELETE CASCADE,
  uri     TEXT NOT NULL,                                    -- as the client wrote it
  session TEXT REFERENCES sessions (id) ON DELETE CASCADE,  -- NULL: it is of no single one
  PRIMARY KEY (nonce, uri)
) STRICT;

CREATE INDEX subscriptions_to_session ON subscriptions (session);
