"""Databases of every version that there has been are taken over whole; and what the newest one looks like."""

import os
import pathlib
import re
import sqlite3

import pytest

from harness import check_database, wait_until

SQL = pathlib.Path(__file__).resolve().parent.parent / "sql"
MIGRATIONS = sorted(SQL.glob("0*.sql"))
SESSION = "session-20260120-143022-A4F2"
OTHER = "session-20260120-143022-A4F3"
CREATED = 3_978_000_000  # 2026-01-21, universal time
NONCE = bytes(range(16))

# Rows as each version wrote them; a later version also has what earlier ones had.
ROWS = {
    1: [("INSERT INTO sessions (id, name, owner, directory, created_at, updated_at) VALUES (?, 'work', ?, '/tmp', ?, ?)",
         (SESSION, os.getuid(), CREATED, CREATED)),
        ("INSERT INTO sessions (id, owner, directory, created_at, updated_at) VALUES (?, ?, '/', ?, ?)",
         (OTHER, os.getuid(), CREATED, CREATED)),
        *[("INSERT INTO evaluations (session, seq, code, text, package, outcome, started_at, elapsed_us) "
           "VALUES (?, ?, ?, ?, 'MINE', ?, ?, 5)", (SESSION, seq, code, text, outcome, CREATED + seq))
          for seq, code, text, outcome in ((3, "(defun walrus ())", "=> WALRUS", 0), (7, None, "[ERROR] SIMPLE-ERROR\nno", 1))],
        ("INSERT INTO conversations (nonce, revision, initialize_line, session, saved_at) VALUES (?, '2025-06-18', 1, ?, ?)",
         (NONCE, SESSION, CREATED + 10**9)),
        ("INSERT INTO answers (nonce, line, item, answer) VALUES (?, 7, 0, '{}')", (NONCE,))],
    2: [("UPDATE sessions SET limits = 'timeout=77' WHERE id = ?", (SESSION,)),
        ("INSERT INTO evaluations (session, seq, code, text, package, outcome, started_at, elapsed_us, operation) "
         "VALUES (?, 8, 'asdf', 'Loaded: asdf', 'MINE', 0, ?, 5, 'load-system')", (SESSION, CREATED + 8)),
        ("INSERT INTO outputs (session, seq, stream, text, is_whole) VALUES (?, 8, 'stdout', 'long output', 1)", (SESSION,))],
    3: [("UPDATE sessions SET model = 'm', metadata = '{\"key\":[1]}', has_history = 1 WHERE id = ?", (SESSION,)),
        ("INSERT INTO messages (session, number, role, content, created_at) VALUES (?, 7, 'assistant', 'porpoise', ?)",
         (SESSION, CREATED + 9)),
        ("INSERT INTO uses (session, directory, client) VALUES (?, '/tmp', 'tests')", (SESSION,))],
    4: [("INSERT INTO births (id, owner, name, original) VALUES ('session-20260120-143022-0000', ?, 'unborn', ?)",
         (os.getuid(), SESSION))],
}


def make(path, version):
    """The database as that version left it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
        for number, migration in enumerate(MIGRATIONS[:version], 1):
            database.executescript(migration.read_text())
            for statement, values in ROWS.get(number, []):
                database.execute(statement, values)
        database.execute(f"PRAGMA user_version = {version}")
    database.close()


def contents(path):
    """{table: rows} of everything that can be read of a database, and its schema without its layout."""
    with sqlite3.connect(path) as database:
        schema = {name: re.sub(r"\s+", " ", re.sub(r"--.*", "", sql)) for name, sql in database.execute(
            "SELECT type || ' ' || name, sql FROM sqlite_master WHERE sql IS NOT NULL")}
        tables = [name.split(" ")[1] for name in schema if name.startswith("table ") and "_words" not in name]
        rows = {table: sorted(map(repr, database.execute(f"SELECT * FROM {table}"))) for table in tables}
        version = database.execute("PRAGMA user_version").fetchone()[0]
    database.close()
    return version, schema, rows


@pytest.fixture
def place(runtime):
    """A runtime in which nothing has been yet."""
    runtime.start_over()
    return runtime


@pytest.fixture(scope="module")
def fresh_schema(runtime):
    runtime.start_over()
    with runtime.client() as client:
        assert client.open().tool("list-sessions").structured["total"] == 0
    version, schema, _ = contents(runtime.database)
    assert version == len(MIGRATIONS)
    return schema


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_a_database_of_each_version_is_taken_over_with_all_its_rows(fresh_schema, place, version):
    make(place.database, version)
    with place.client("--session", "work", directory="/tmp") as client:
        client.open()
        cards = {card["id"]: card for card in client.tool("list-sessions").structured["sessions"]}
        assert set(cards) == {SESSION, OTHER} and {card["created_at"] for card in cards.values()} == {CREATED}
        card = cards[SESSION]
        assert (card["name"], card["package"], card["directory"]) == ("work", "MINE", "/tmp")
        messages = client.tool("session-history", session="work", limit=1000).structured["messages"]
        told = [(m["number"], m["role"], m["content"], m["evaluation"], m["is_error"], m["created_at"]) for m in messages]
        assert told[:4] == [(1, "user", "(defun walrus ())", 3, False, CREATED + 3), (2, "tool", "=> WALRUS", 3, False, CREATED + 3),
                            (3, "user", None, 7, False, CREATED + 7),
                            (4, "tool", "[ERROR] SIMPLE-ERROR\nno", 7, True, CREATED + 7)]
        found = {word: len(client.tool("search-sessions", query=word).structured["hits"]) for word in ("walrus", "loaded", "porpoise")}
        assert found == {"walrus": 2, "loaded": int(version >= 2), "porpoise": int(version >= 3)}
        assert client.tool("search-sessions", query="work").structured["names"] == [{"session": SESSION, "name": "work"}]
        if version >= 2:
            assert [m["operation"] for m in messages][4] == "load-system" and card["evaluations"] == 8
            assert "long output" in client.tool("read-output", session="work").text
            assert "timeout: 77 seconds" in client.tool("configure-limits", session="work").text
        if version >= 3:
            assert (card["model"], card["metadata"], told[6][2]) == ("m", {"key": [1]}, "porpoise")
        back = client.evaluate("(+ 1 2)")
        assert back.text.endswith("=> 3") and back.structured["evaluation"] == card["evaluations"] + 1
    assert contents(place.database)[:2] == (len(MIGRATIONS), fresh_schema)
    check_database(place.database).close()


def test_a_line_that_a_former_version_has_answered_is_still_answered_from_there(place):
    make(place.database, 1)
    with place.client() as client:
        client.open().tool("list-sessions")
    with sqlite3.connect(place.database) as database:
        assert database.execute("SELECT line, answer, tool FROM answers WHERE nonce = ?", [NONCE]).fetchall() == [(7, "{}", None)]
        assert database.execute("SELECT revision, session, has_begun FROM conversations WHERE nonce = ?", [NONCE]).fetchall() == [
            ("2025-06-18", SESSION, 1)]
    database.close()


@pytest.mark.parametrize("version, obstacle", [(1, "CREATE TABLE outputs (x)"), (1, "CREATE TABLE messages (x)"), (2, "CREATE TABLE name_words (x)"),
                                               (3, "CREATE TABLE births (x)")])
def test_a_migration_that_fails_half_way_leaves_the_version_that_was_there(place, version, obstacle):
    make(place.database, version)
    with sqlite3.connect(place.database) as database:
        database.execute(obstacle)
    database.close()
    before = contents(place.database)
    client = place.client().open()
    refused = client.tool("list-sessions")
    assert refused.is_error and "cannot migrate" in refused.text and "already exists" in refused.text
    assert client.evaluate("1").text.startswith("[ERROR] STORAGE-FAILED\n")
    left = contents(place.database)
    name = obstacle.split(" ")[2]
    if name == "messages":  # one step further, and whole
        assert left[0] == 2
    else:
        assert left == before
    with sqlite3.connect(place.database) as database:
        database.execute(f"DROP TABLE {name}")
    database.close()
    wait_until(lambda: not client.tool("list-sessions").is_error, "it is taken over when nothing is in the way")
    assert client.tool("session-history", session="work").structured["messages"][0]["content"] == "(defun walrus ())"


# What the newest one looks like


def test_every_table_is_strict_but_those_of_the_index_of_words(fresh_schema):
    for name, sql in fresh_schema.items():
        if name.startswith("table ") and "_words" not in name:
            assert sql.rstrip().endswith("STRICT"), name


def test_the_database_has_a_log_and_is_private(place):
    client = place.client().open()
    client.evaluate("1")
    with sqlite3.connect(place.database) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert database.execute("PRAGMA encoding").fetchone() == ("UTF-8",)
    database.close()
    for path in place.database.parent.glob("sessions.db*"):
        assert path.stat().st_mode & 0o777 == 0o600, path
    assert place.database.parent.stat().st_mode & 0o777 == 0o700
