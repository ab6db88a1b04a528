-- Version 5: what is read as a resource.

-- The last error of a session is found however long its transcript is.
CREATE INDEX messages_of_errors ON messages (session, number) WHERE is_error;
