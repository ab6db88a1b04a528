-- Version 9: what a session is made again from whose process has ended without writing its state: its definitions.

-- Evaluations up to this one have no part in what the session is: they came before a reset, or from another machine.
ALTER TABLE sessions ADD COLUMN forgotten_seq INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET forgotten_seq = last_seq; -- of these it is not known in which package they were read

ALTER TABLE messages ADD COLUMN given TEXT;    -- of an evaluation's code: the package that the call named, if any
ALTER TABLE messages ADD COLUMN forms INTEGER; -- of its result: how many forms ended as they should

DROP VIEW evaluations;
CREATE VIEW evaluations AS
  SELECT result.session, result.seq, asked.content AS code, result.content AS text, result.package, result.outcome,
      result.created_at AS started_at, result.elapsed_us, asked.operation, result.restored, asked.given, result.forms
    FROM messages AS result JOIN messages AS asked
      ON asked.session = result.session AND asked.seq = result.seq AND asked.role = 'user'
    WHERE result.role = 'tool' AND result.seq IS NOT NULL;

CREATE TRIGGER evaluation_is_added INSTEAD OF INSERT ON evaluations BEGIN
  INSERT OR IGNORE INTO messages (session, number, role, content, created_at, seq, operation, given)
    SELECT id, message_count + 1, 'user', NEW.code, NEW.started_at, NEW.seq, NEW.operation, NEW.given
      FROM sessions WHERE id = NEW.session AND has_history;
  INSERT OR IGNORE INTO messages (session, number, role, content, created_at, seq, package, outcome, elapsed_us, is_error,
      restored, forms)
    SELECT id, message_count + 1, 'tool', NEW.text, NEW.started_at, NEW.seq, NEW.package, NEW.outcome, NEW.elapsed_us,
      NEW.outcome <> 0, NEW.restored, NEW.forms FROM sessions WHERE id = NEW.session AND has_history;
  UPDATE sessions SET last_seq = max(last_seq, NEW.seq), package = ifnull(nullif(NEW.package, ''), package),
    updated_at = max(updated_at, unixepoch() + 2208988800) WHERE id = NEW.session;
END;

DROP TRIGGER transfer_is_taken;
CREATE TRIGGER transfer_is_taken INSTEAD OF INSERT ON transfers BEGIN
  INSERT INTO sessions (id, owner, name, directory, created_at, updated_at, model, metadata, package, limits, has_history,
      last_seq, forgotten_seq)
    VALUES (NEW.id, NEW.owner, NEW.name, NEW.directory, NEW.created_at, NEW.updated_at, NEW.model, NEW.metadata, NEW.package,
      NEW.limits, NEW.has_history, NEW.last_seq, NEW.last_seq);
  INSERT INTO messages (session, number, role, content, created_at, seq, operation, package, outcome, elapsed_us, is_error,
      restored)
    SELECT NEW.id, key + 1, value ->> 'role', value ->> 'content', value ->> 'created_at', value ->> 'evaluation',
        value ->> 'operation', value ->> 'package', value ->> 'outcome', value ->> 'elapsed_us', value ->> 'is_error',
        value ->> 'restored'
      FROM json_each(NEW.messages) ORDER BY key;
  UPDATE sessions SET updated_at = NEW.updated_at WHERE id = NEW.id; -- adding messages counts as a use
END;
