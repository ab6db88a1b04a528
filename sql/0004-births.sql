-- Version 4: sessions that are on their way to being: clones that have no row yet.

-- A daemon that dies in between is followed by one that finds them here, and ends what there is of them.
CREATE TABLE births (
  id       TEXT PRIMARY KEY NOT NULL,
  owner    INTEGER NOT NULL,
  name     TEXT,                           -- that it will be given
  original TEXT NOT NULL                   -- the session that is cloned
) STRICT;

CREATE TRIGGER birth_is_possible BEFORE INSERT ON births BEGIN
  SELECT RAISE(ABORT, 'sessions.id is taken') WHERE EXISTS (SELECT 1 FROM sessions WHERE id = NEW.id);
  SELECT RAISE(ABORT, 'sessions.name is taken')
    WHERE EXISTS (SELECT 1 FROM sessions WHERE owner = NEW.owner AND name = NEW.name);
END;

CREATE TRIGGER birth_is_over AFTER INSERT ON sessions BEGIN
  DELETE FROM births WHERE id = NEW.id;
END;
