-- Version 6: how much is stored for each owner, transcripts and kept output together.

CREATE TABLE owners (
  owner        INTEGER PRIMARY KEY,        -- uid
  stored_bytes INTEGER NOT NULL DEFAULT 0  -- of all sessions
) STRICT;

UPDATE sessions SET stored_bytes = stored_bytes +
  ifnull((SELECT sum(length(CAST(text AS BLOB))) FROM outputs WHERE session = sessions.id), 0);
INSERT INTO owners (owner, stored_bytes) SELECT owner, sum(stored_bytes) FROM sessions GROUP BY owner;

CREATE TRIGGER owner_is_noted AFTER INSERT ON sessions BEGIN
  INSERT OR IGNORE INTO owners (owner) VALUES (NEW.owner);
  UPDATE owners SET stored_bytes = stored_bytes + NEW.stored_bytes WHERE owner = NEW.owner;
END;

CREATE TRIGGER owner_stores AFTER UPDATE OF stored_bytes ON sessions BEGIN
  UPDATE owners SET stored_bytes = stored_bytes + NEW.stored_bytes - OLD.stored_bytes WHERE owner = NEW.owner;
END;

CREATE TRIGGER owner_has_deleted AFTER DELETE ON sessions BEGIN
  UPDATE owners SET stored_bytes = stored_bytes - OLD.stored_bytes WHERE owner = OLD.owner;
END;

CREATE TRIGGER output_is_counted AFTER INSERT ON outputs BEGIN
  UPDATE sessions SET stored_bytes = stored_bytes + length(CAST(NEW.text AS BLOB)) WHERE id = NEW.session;
END;

CREATE TRIGGER output_is_removed AFTER DELETE ON outputs BEGIN
  UPDATE sessions SET stored_bytes = stored_bytes - length(CAST(OLD.text AS BLOB)) WHERE id = OLD.session;
END;

-- Sessions that nobody has used for long are looked for by their age.
CREATE INDEX sessions_by_age ON sessions (updated_at);
