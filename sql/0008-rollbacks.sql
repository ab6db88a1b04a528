-- Version 8: sessions that were rolled back, or went on from an earlier copy. Nothing is removed then; what is undone follows
-- from these numbers.

ALTER TABLE messages ADD COLUMN restored INTEGER; -- of an answer: the evaluation whose state came back with it or before it

CREATE INDEX messages_of_rollbacks ON messages (session, seq) WHERE restored IS NOT NULL;

DROP VIEW evaluations;

CREATE VIEW evaluations AS
  SELECT result.session, result.seq, asked.content AS code, result.content AS text, result.package, result.outcome,
      result.created_at AS started_at, result.elapsed_us, asked.operation, result.restored
    FROM messages AS result JOIN messages AS asked
      ON asked.session = result.session AND asked.seq = result.seq AND asked.role = 'user'
    WHERE result.role = 'tool' AND result.seq IS NOT NULL;

-- One statement records an evaluation. A result that a daemon reports again, after a crash, changes nothing.
CREATE TRIGGER evaluation_is_added INSTEAD OF INSERT ON evaluations BEGIN
  INSERT OR IGNORE INTO messages (session, number, role, content, created_at, seq, operation)
    SELECT id, message_count + 1, 'user', NEW.code, NEW.started_at, NEW.seq, NEW.operation
      FROM sessions WHERE id = NEW.session AND has_history;
  INSERT OR IGNORE INTO messages (session, number, role, content, created_at, seq, package, outcome, elapsed_us, is_error,
      restored)
    SELECT id, message_count + 1, 'tool', NEW.text, NEW.started_at, NEW.seq, NEW.package, NEW.outcome, NEW.elapsed_us,
      NEW.outcome <> 0, NEW.restored FROM sessions WHERE id = NEW.session AND has_history;
  UPDATE sessions SET last_seq = max(last_seq, NEW.seq), package = ifnull(nullif(NEW.package, ''), package),
    updated_at = max(updated_at, unixepoch() + 2208988800) WHERE id = NEW.session;
END;

DROP VIEW transfers;

-- A session as it goes to another machine, and how it comes from one: what is inserted becomes rows.
CREATE VIEW transfers AS
  SELECT id, owner, name, directory, created_at, updated_at, model, metadata, package, limits, has_history, last_seq,
      (SELECT json_group_array(json_object('number', number, 'role', role, 'content', content, 'created_at', created_at,
          'evaluation', seq, 'operation', operation, 'package', package, 'outcome', outcome, 'elapsed_us', elapsed_us,
          'restored', restored, 'is_error', json(iif(is_error, 'true', 'false'))))
        FROM (SELECT * FROM messages WHERE session = sessions.id ORDER BY number)) AS messages,
      NULL AS remarks                      -- what was put right before it could be inserted
    FROM sessions;

CREATE TRIGGER transfer_is_taken INSTEAD OF INSERT ON transfers BEGIN
  INSERT INTO sessions (id, owner, name, directory, created_at, updated_at, model, metadata, package, limits, has_history, last_seq)
    VALUES (NEW.id, NEW.owner, NEW.name, NEW.directory, NEW.created_at, NEW.updated_at, NEW.model, NEW.metadata, NEW.package,
      NEW.limits, NEW.has_history, NEW.last_seq);
  INSERT INTO messages (session, number, role, content, created_at, seq, operation, package, outcome, elapsed_us, is_error,
      restored)
    SELECT NEW.id, key + 1, value ->> 'role', value ->> 'content', value ->> 'created_at', value ->> 'evaluation',
        value ->> 'operation', value ->> 'package', value ->> 'outcome', value ->> 'elapsed_us', value ->> 'is_error',
        value ->> 'restored'
      FROM json_each(NEW.messages) ORDER BY key;
  UPDATE sessions SET updated_at = NEW.updated_at WHERE id = NEW.id; -- adding messages counts as a use
END;
