-- Version 2: limits, operations other than evaluating, and output that answers do not show.

ALTER TABLE sessions ADD COLUMN limits TEXT NOT NULL DEFAULT ''; -- those that differ from the defaults: "max-heap=2048"

ALTER TABLE sessions ADD COLUMN reload TEXT; -- systems that a reset has still to load again

ALTER TABLE evaluations ADD COLUMN operation TEXT; -- NULL: the code was evaluated; otherwise it is the operation's argument

CREATE TABLE outputs (
  session  TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  seq      INTEGER NOT NULL,
  stream   TEXT NOT NULL,             -- stdout or stderr
  text     TEXT NOT NULL,
  is_whole INTEGER NOT NULL,          -- 0: more was written than could be kept
  PRIMARY KEY (session, seq, stream)
) STRICT;

-- Long output is for looking something up soon afterwards: that of the last sixteen evaluations is kept.
CREATE TRIGGER output_replaces_older AFTER INSERT ON outputs BEGIN
  DELETE FROM outputs WHERE session = NEW.session AND seq NOT IN
    (SELECT DISTINCT seq FROM outputs WHERE session = NEW.session ORDER BY seq DESC LIMIT 16);
END;
