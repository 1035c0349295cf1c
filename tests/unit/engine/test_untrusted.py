"""Untrusted texts: a corpus of attacks, all refused; the case files, whose harmless queries all pass; and limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow
import pytest

import bridge
from bridge import Bridge, Limits, QueryError
from tests.support.cases_format import Case, load_all
from tests.support.databases import DATABASES
from tests.test_cases import make_table, open_store

if TYPE_CHECKING:
    from tests.support.databases import Database

ANYWHERE = """
SELECT * FROM secret
SELECT * FROM "secret"
SELECT * FROM main.secret
SELECT s.k FROM s, secret
SELECT k FROM s UNION ALL SELECT k FROM secret
SELECT (SELECT MAX(k) FROM secret) FROM s
SELECT k FROM s WHERE EXISTS (SELECT 1 FROM secret)
SELECT k FROM s WHERE k IN (SELECT k FROM secret)
WITH t AS (SELECT * FROM secret) SELECT * FROM t
WITH secret AS (SELECT * FROM secret) SELECT * FROM secret
SELECT * FROM (WITH secret AS (SELECT 1 AS k) SELECT * FROM secret) AS a, secret
WITH "SECRET" AS (SELECT 1 AS k) SELECT * FROM secret
WITH RECURSIVE secret AS (SELECT * FROM secret) SELECT * FROM secret
WITH RECURSIVE secret AS (SELECT k FROM secret UNION ALL SELECT k + 1 FROM secret WHERE k < 5) SELECT * FROM secret
WITH RECURSIVE a AS (SELECT k FROM secret), secret AS (SELECT 1 AS k) SELECT * FROM a
VALUES ((SELECT MAX(k) FROM secret))
SELECT * FROM (SELECT * FROM (SELECT * FROM secret) AS a) AS b
SELECT * FROM s JOIN secret ON secret.k = s.k
SELECT * FROM s LEFT JOIN LATERAL (SELECT * FROM secret) AS x ON 1 = 1
SELECT * FROM s ORDER BY (SELECT k FROM secret)
SELECT * FROM s LIMIT (SELECT 1 FROM secret)
SELECT k, SUM(a) OVER (ORDER BY (SELECT MAX(a) FROM secret)) FROM s
SELECT * FROM information_schema.tables
SELECT * FROM cep_window_s
SELECT * FROM cep_clock
SELECT no_such_function(a) FROM s
SELECT "no_such_function"(a) FROM s
SELECT x.upper(k) FROM s
SELECT k FROM s; DROP TABLE secret
DROP TABLE secret
DELETE FROM secret
UPDATE secret SET k = 1
INSERT INTO secret VALUES (1)
CREATE TABLE t AS SELECT 1
EXPLAIN SELECT 1
SELECT CURRENT_USER
SELECT session_user
SELECT current_role
SELECT ?
SELECT * FROM secret MATCH_RECOGNIZE (ORDER BY a PATTERN (A) DEFINE A AS a > 0)
SELECT * FROM (SELECT * FROM secret) MATCH_RECOGNIZE (ORDER BY a PATTERN (A) DEFINE A AS a > 0)
SELECT * FROM recent MATCH_RECOGNIZE (ORDER BY ts MEASURES evil(A.a) AS m PATTERN (A) DEFINE A AS a > 0)
SELECT * FROM recent MATCH_RECOGNIZE (ORDER BY ts MEASURES A.a AS m PATTERN (A) DEFINE A AS evil(a) > 0)
SELECT * FROM recent MATCH_RECOGNIZE (PARTITION BY evil(k) ORDER BY ts PATTERN (A) DEFINE A AS a > 0)
"""

ON = {
    "duckdb": """
SELECT * FROM read_csv('/etc/passwd')
SELECT * FROM READ_CSV_AUTO('/etc/passwd')
SELECT * FROM read_text('/etc/passwd')
SELECT * FROM read_blob('/etc/passwd')
SELECT * FROM read_parquet('x.parquet')
SELECT * FROM parquet_scan('x.parquet')
SELECT * FROM read_json('x.json')
SELECT * FROM "read_text"('/etc/passwd')
SELECT * FROM main.read_text('/etc/passwd')
SELECT * FROM system.main.read_text('/etc/passwd')
SELECT * FROM 'x.csv'
SELECT * FROM "x.csv"
FROM 'x.parquet'
FROM "https://example.com/x.parquet"
SELECT * FROM glob('/etc/*')
SELECT * FROM sniff_csv('/etc/passwd')
SELECT getenv('HOME')
SELECT "getenv"('HOME')
SELECT current_setting('temp_directory')
SELECT getvariable('x')
SELECT * FROM duckdb_settings()
SELECT * FROM duckdb_secrets()
SELECT * FROM duckdb_tables()
SELECT * FROM query('SELECT * FROM secret')
SELECT * FROM query_table('secret')
SELECT * FROM pragma_table_info('secret')
SELECT * FROM pragma_database_size()
SELECT json_execute_serialized_sql('{}')
SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))
SELECT list_transform([1], x -> getenv('HOME'))
SELECT list_transform([1], lambda x: getenv('HOME'))
SELECT [getenv(x) FOR x IN ['HOME']]
SELECT {'a': getenv('HOME')}
SELECT 'HOME'.getenv()
SELECT CASE WHEN true THEN getenv('HOME') END
SELECT COALESCE(NULL, getenv('HOME'))
SELECT MAX(getenv('HOME')) FILTER (WHERE true) FROM s
SELECT k FROM s QUALIFY ROW_NUMBER() OVER (ORDER BY getenv(k)) = 1
SELECT * REPLACE (getenv('HOME') AS k) FROM s
SELECT COLUMNS(*) FROM s
SELECT * FROM s, LATERAL (SELECT getenv('HOME'))
SELECT nextval('seq')
SELECT setseed(0.5)
SELECT sleep_ms(1000)
SELECT pg_sleep(1)
SELECT write_log('x')
SELECT version()
SELECT current_database()
SELECT current_schema()
SELECT error('x')
SELECT * FROM s TABLESAMPLE 10%
SELECT * FROM pg_catalog.pg_tables
SELECT * FROM sqlite_master
SELECT $x
COPY s TO 'x.csv'
COPY (SELECT 1) TO 'x.csv'
ATTACH 'x.db'
INSTALL httpfs
LOAD httpfs
PRAGMA database_list
SET threads = 1
EXPORT DATABASE 'x'
CALL pragma_version()
SHOW TABLES
DESCRIBE secret
SUMMARIZE secret
FROM (DESCRIBE secret)
PIVOT secret ON k
SELECT * FROM (PIVOT secret ON k USING COUNT(*))
SELECT CAST('x' AS my_type)
SELECT * FROM local_frame
SELECT * FROM histogram('secret', 'k')
SELECT * FROM histogram_values('secret', 'k')
SELECT * FROM s, LATERAL histogram('secret', 'k')
SELECT * FROM summary('secret')
SELECT * FROM s JOIN histogram('secret', 'k') AS h ON true
SELECT * FROM my_schema.generate_series(1, 2)
SELECT k FROM recent ORDER BY getenv(k)
SELECT k FROM recent GROUP BY k, getenv(k)
SELECT k FROM recent GROUP BY k HAVING getenv(k) = 'x'
""",
    "sqlite": """
SELECT load_extension('x')
SELECT "load_extension"('x')
SELECT LOAD_EXTENSION(k) FROM s
SELECT writefile('x', 'y')
SELECT 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!' REGEXP '(a+)+$'
SELECT regexp('(a+)+$', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!')
SELECT readfile('/etc/passwd')
SELECT edit('x')
SELECT * FROM fsdir('/')
SELECT fts3_tokenizer('x')
SELECT fts3_tokenizer('x', 'y')
SELECT fts5('x')
SELECT fts5_source_id()
SELECT sqlite_version()
SELECT sqlite_source_id()
SELECT sqlite_compileoption_get(1)
SELECT sqlite_compileoption_used('x')
SELECT sqlite_log(1, 'x')
SELECT last_insert_rowid()
SELECT changes()
SELECT total_changes()
SELECT zeroblob(1000000000)
SELECT randomblob(1000000000)
SELECT * FROM pragma_table_info('secret')
SELECT * FROM pragma_database_list
SELECT * FROM pragma_database_list()
SELECT * FROM main.pragma_database_list
SELECT * FROM pragma_function_list
SELECT * FROM sqlite_master
SELECT * FROM sqlite_schema
SELECT * FROM main.sqlite_master
SELECT * FROM sqlite_temp_master
SELECT * FROM temp.sqlite_master
SELECT * FROM sqlite_sequence
SELECT * FROM sqlite_stat1
SELECT * FROM dbstat
SELECT * FROM sqlite_dbpage
SELECT * FROM bytecode('SELECT 1')
SELECT * FROM generate_series
SELECT * FROM "secret"('x')
SELECT k FROM s WHERE s MATCH 'x'
SELECT k FROM s WHERE k IN secret
SELECT k FROM s WHERE k IN main.secret
SELECT k FROM s WHERE k NOT IN [secret]
SELECT k FROM s WHERE k IN pragma_table_info('secret')
SELECT * FROM 'secret'
SELECT a -> load_extension('x') FROM recent
SELECT rtreenode(1, 'x')
SELECT snippet(s) FROM s
SELECT offsets(s) FROM s
SELECT matchinfo(s) FROM s
SELECT highlight(s, 0, 'a', 'b') FROM s
SELECT subtype(k) FROM s
SELECT CASE WHEN 1 THEN load_extension('x') END
SELECT COALESCE(NULL, load_extension('x'))
SELECT MAX(load_extension(k)) FROM s
SELECT COUNT(*) FILTER (WHERE load_extension(k)) FROM s
SELECT SUM(a) OVER (PARTITION BY load_extension(k)) FROM s
WITH RECURSIVE n(i) AS (SELECT load_extension('x')) SELECT * FROM n
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n, secret) SELECT * FROM n
SELECT * FROM json_each((SELECT k FROM secret))
ATTACH 'x.db' AS x
DETACH main
PRAGMA writable_schema = ON
PRAGMA database_list
VACUUM
VACUUM INTO 'x.db'
ANALYZE
REINDEX
BEGIN
SAVEPOINT x
CREATE VIRTUAL TABLE t USING fts5(x)
CREATE TRIGGER t AFTER INSERT ON s BEGIN SELECT 1; END
REPLACE INTO secret VALUES (1)
SELECT k FROM s WHERE load_extension(k) BETWEEN 1 AND 2
SELECT k FROM recent ORDER BY load_extension(k)
""",
    "postgresql": """
SELECT pg_read_file('/etc/passwd')
SELECT pg_read_binary_file('/etc/passwd')
SELECT pg_catalog.pg_read_file('/etc/passwd')
SELECT "pg_read_file"('/etc/passwd')
SELECT PG_READ_FILE('/etc/passwd')
SELECT pg_ls_dir('.')
SELECT * FROM pg_ls_dir('.')
SELECT * FROM ROWS FROM (pg_ls_dir('.'))
SELECT (pg_stat_file('PG_VERSION')).*
SELECT pg_sleep(60)
SELECT pg_sleep_for('1 minute')
SELECT pg_sleep_until('tomorrow')
SELECT * FROM s, LATERAL pg_sleep(60)
SELECT CASE WHEN true THEN pg_sleep(60) END
SELECT set_config('log_statement', 'none', false)
SELECT current_setting('data_directory')
SELECT pg_advisory_lock(1)
SELECT pg_try_advisory_lock(1)
SELECT pg_advisory_xact_lock(1)
SELECT pg_advisory_unlock_all()
SELECT lo_import('/etc/passwd')
SELECT lo_export(1, '/tmp/x')
SELECT lo_from_bytea(0, 'x')
SELECT lo_get(1)
SELECT dblink('host=x', 'SELECT 1')
SELECT * FROM dblink('host=x', 'SELECT 1') AS t(a INTEGER)
SELECT dblink_connect('host=x')
SELECT query_to_xml('SELECT * FROM secret', true, true, '')
SELECT table_to_xml('secret', true, true, '')
SELECT database_to_xml(true, true, '')
SELECT cursor_to_xml('c', 1, true, true, '')
SELECT ts_stat('SELECT * FROM secret')
SELECT * FROM ts_stat('SELECT k FROM secret')
SELECT pg_terminate_backend(1)
SELECT pg_cancel_backend(1)
SELECT pg_reload_conf()
SELECT pg_rotate_logfile()
SELECT pg_switch_wal()
SELECT pg_logical_emit_message(true, 'a', 'b')
SELECT pg_notify('a', 'b')
SELECT pg_backend_pid()
SELECT inet_server_addr()
SELECT version()
SELECT current_database()
SELECT current_schema
SELECT user
SELECT current_catalog
SELECT has_table_privilege('secret', 'select')
SELECT 'secret'::regclass
SELECT CAST('secret' AS regclass)
SELECT CAST('postgres' AS regrole)
SELECT to_regclass('secret')
SELECT xmlparse(DOCUMENT '<a/>')
SELECT CAST('<a/>' AS xml)
SELECT 1 OPERATOR(pg_catalog.+) 2
SELECT CAST(k AS information_schema.sql_identifier) FROM recent
SELECT CAST(k AS "regclass") FROM recent
SELECT json_populate_record(NULL::secret, '{}')
SELECT $$x$$, pg_sleep(60)
SELECT E'a\\'b', pg_sleep(60)
SELECT regclass 'secret'
SELECT regrole 'postgres'
SELECT xml '<a/>'
SELECT bar(1)
SELECT * FROM lower('x')
SELECT nextval('seq')
SELECT setval('seq', 1)
SELECT setseed(0.5)
SELECT txid_current()
SELECT pg_get_viewdef('secret')
SELECT obj_description(1)
SELECT * FROM pg_catalog.pg_authid
SELECT * FROM pg_shadow
SELECT * FROM pg_stat_activity
SELECT * FROM pg_settings
SELECT * FROM pg_class
TABLE secret
SELECT * FROM ONLY secret
SELECT * INTO t FROM s
SELECT * FROM recent FOR UPDATE
WITH x AS (DELETE FROM secret RETURNING *) SELECT * FROM x
WITH x AS (INSERT INTO secret VALUES (1) RETURNING *) SELECT * FROM x
COPY secret TO PROGRAM 'cat'
COPY secret TO '/tmp/x'
DO $$ BEGIN END $$
CALL p()
LISTEN x
NOTIFY x
SET ROLE postgres
LOCK TABLE secret
EXECUTE p
SELECT k FROM recent ORDER BY pg_sleep(60)
""",
    "mariadb": """
SELECT LOAD_FILE('/etc/passwd')
SELECT load_file('/etc/passwd')
SELECT `LOAD_FILE`('/etc/passwd')
SELECT SLEEP(60)
SELECT a FROM s WHERE SLEEP(60)
SELECT CASE WHEN 1 THEN SLEEP(60) END
SELECT BENCHMARK(1000000000, MD5('x'))
SELECT GET_LOCK('x', 60)
SELECT RELEASE_LOCK('x')
SELECT RELEASE_ALL_LOCKS()
SELECT IS_FREE_LOCK('x')
SELECT IS_USED_LOCK('x')
SELECT MASTER_POS_WAIT('x', 1)
SELECT MASTER_GTID_WAIT('x')
SELECT WSREP_SYNC_WAIT_UPTO_GTID('x')
SELECT * FROM s INTO OUTFILE '/tmp/x'
SELECT * INTO OUTFILE '/tmp/x' FROM s
SELECT * FROM s INTO DUMPFILE '/tmp/x'
SELECT k INTO @x FROM s
SELECT @@datadir
SELECT @@global.secure_file_priv
SELECT @x
SELECT @x := 1
SELECT USER()
SELECT CURRENT_USER()
SELECT SESSION_USER()
SELECT SYSTEM_USER()
SELECT CURRENT_ROLE()
SELECT DATABASE()
SELECT SCHEMA()
SELECT VERSION()
SELECT CONNECTION_ID()
SELECT LAST_INSERT_ID()
SELECT LAST_INSERT_ID(5)
SELECT FOUND_ROWS()
SELECT ROW_COUNT()
SELECT UUID_SHORT()
SELECT RANDOM_BYTES(1024)
SELECT AES_ENCRYPT('a', 'b')
SELECT DES_ENCRYPT('a')
SELECT ENCRYPT('a')
SELECT PASSWORD('a')
SELECT EXTRACTVALUE('<a/>', '/a')
SELECT UPDATEXML('<a/>', '/a', 'b')
SELECT NAME_CONST('a', 1)
SELECT DECODE_HISTOGRAM('a', 'b')
SELECT BINLOG_GTID_POS('a', 1)
SELECT COMPRESS('a')
SELECT UNCOMPRESS('a')
SELECT COLUMN_JSON('a')
SELECT NEXTVAL(seq)
SELECT SETVAL(seq, 1)
SELECT NEXT VALUE FOR seq
SELECT PREVIOUS VALUE FOR seq
SELECT sys_exec('id')
SELECT sys_eval('id')
SELECT db.f(1)
SELECT SQL_CALC_FOUND_ROWS * FROM s
SELECT _utf8'x'
SELECT * FROM mysql.user
SELECT * FROM information_schema.processlist
SELECT * FROM performance_schema.threads
SELECT * FROM sys.version
SELECT * FROM `secret`
SELECT 'a' 'b', SLEEP(60)
SELECT 'a\\'' , SLEEP(60)
SELECT DATE_ADD(NOW(), INTERVAL SLEEP(60) SECOND)
SELECT CONVERT(LOAD_FILE('x') USING utf8mb4)
SELECT * FROM JSON_TABLE((SELECT k FROM secret), '$' COLUMNS (a INT PATH '$')) AS t
SELECT * FROM seq_1_to_10
SELECT * FROM recent FOR UPDATE
SELECT * FROM recent LOCK IN SHARE MODE
SELECT * FROM s PROCEDURE ANALYSE()
SELECT k FROM recent WHERE 'a\\' = SLEEP(60) -- '
SELECT JSON_EXTRACT(k, LOAD_FILE('x')) FROM s
SELECT GROUP_CONCAT(LOAD_FILE(k) SEPARATOR ',') FROM s
LOAD DATA INFILE '/etc/passwd' INTO TABLE secret
SET GLOBAL general_log = 1
CALL p()
DO SLEEP(60)
HANDLER secret OPEN
SHOW GRANTS
PREPARE p FROM 'SELECT 1'
EXECUTE IMMEDIATE 'SELECT 1'
SELECT k FROM recent ORDER BY SLEEP(60)
""",
}

CONTINUOUS = """
sql: SELECT evil(k) AS x FROM s
sql: SELECT k FROM s WHERE evil(k) = 1
sql: SELECT SUM(evil(a)) AS x FROM s WINDOW(ROWS 5)
sql: SELECT k, SUM(a) AS x FROM s WINDOW(ROWS 5) GROUP BY k HAVING evil(k) = 1
sql: SELECT k, SUM(a) AS x FROM s WINDOW(ROWS 5) GROUP BY k, evil(k)
sql: SELECT SUM(a) AS x FROM s WINDOW(PARTITION BY evil(k) ROWS 5)
sql: SELECT SUM(a) AS x FROM s WINDOW(START evil(a) > 9 STOP a < 1)
sql: SELECT l.a FROM s WINDOW(ROWS 5) AS l, s WINDOW(ROWS 1) AS r WHERE evil(l.a) = r.a
sql: SELECT s.a FROM s WINDOW(ROWS 5), secret WHERE s.a = secret.a
sql: SELECT s.a FROM s WINDOW(ROWS 5), "secret" WHERE s.a = secret.a
sql: SELECT x FROM (SELECT evil(k) AS x FROM s)
sql: SELECT k FROM s UNION ALL SELECT evil(k) AS k FROM s
sql: SELECT CASE WHEN a > 1 THEN evil(k) END AS x FROM s
sql: SELECT "evil"(k) AS x FROM s
sql: SELECT z FROM s MATCHING (PATTERN xy WITHIN 9 MS MEASURES z INTEGER DEFINE x DO z = evil(a))
sql: SELECT z FROM s MATCHING (PATTERN xy WITHIN 9 MS MEASURES z INTEGER DEFINE x AS evil(a) = 1 DO z = a)
sql: SELECT * FROM s MATCH_RECOGNIZE (MEASURES evil(A.a) AS m PATTERN (A B) WITHIN 9 MS)
sql: SELECT * FROM s MATCH_RECOGNIZE (MEASURES A.a AS m PATTERN (A B) WITHIN 9 MS DEFINE B AS evil(B.a) = 1)
sql: SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY evil(k) PATTERN (A B) WITHIN 9 MS)
sql: SELECT repeat(k, 1000000000) AS x FROM s
sql: SELECT CURRENT_USER AS x FROM s
sql: SELECT CAST(k AS my_type) AS x FROM s
epl: select evil(k) as x from s
epl: select k from s where evil(k) = 1
epl: select sum(evil(a)) as x from s#length(5)
epl: select k from s#length(evil(3))
epl: select k from s(evil(k) = 1)
epl: select java.lang.Runtime.getRuntime() as x from s
epl: select Runtime.exec('x') as x from s
epl: select System.getenv('HOME') as x from s
epl: select k from method:Runtime.exec('x')
epl: select * from sql:db ['SELECT * FROM secret']
epl: select s.a from s#length(5) as s, secret where s.a = secret.a
epl: select x.a as a from pattern [every x=s(evil(k) = 1)]
epl: select x.a as a from pattern [every x=s -> y=s(evil(x.k) = y.k)]
epl: select * from s match_recognize (measures evil(A.a) as m pattern (A B) define B as B.a > 1)
epl: select * from s match_recognize (measures A.a as m pattern (A B) define B as evil(B.a) = 1)
epl: insert into shared select k, a from s
epl: on s delete from shared
epl: on s update shared set a = 1
epl: on s set level = 3
epl: create table mine (k string primary key)
epl: create window mine#keepall as s
epl: create variable int mine = 1
epl: select k, (select a from secret) as x from s
"""

TABLE = "CREATE TABLE secret (k INTEGER, a INTEGER)"


@pytest.fixture
def cep(database: Database) -> Iterator[Bridge]:
    with database.connect() as opened:
        opened.database.execute(TABLE)
        opened.register_stream("s", "k VARCHAR, a INTEGER")
        opened.create_query("recent", "SELECT k, a FROM s WINDOW(RANGE 5 S)")
        opened.create_query("shared", "create window shared#keepall as s", language="epl")
        opened.create_query("level", "create variable int level = 1", language="epl")
        opened.push_event("s", ["p", 7], 1000)
        yield opened
        opened.database.execute("DROP TABLE secret")


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def test_attacks_on_demand_are_refused(cep: Bridge, database: Database):
    attacks = lines(ANYWHERE + ON[database.name])
    assert len(attacks) >= 60
    begin = time.monotonic()
    for text in attacks:
        with pytest.raises(QueryError) as refused:
            cep.query(text, untrusted=True)
        assert "the database refuses" not in str(refused.value), text
    for text in attacks[::8]:
        with pytest.raises(bridge.BridgeError) as refused:
            cep.explain(text, untrusted=True)
        assert "the database refuses" not in str(refused.value), text
    assert time.monotonic() - begin < 30


def test_why_and_replays_of_untrusted_texts_are_checked(cep: Bridge):
    clause = "MATCH_RECOGNIZE (ORDER BY ts PATTERN (A B) DEFINE B AS {}) AS m"
    harmless, evil = (f"SELECT * FROM recent {clause.format(text)}" for text in ("B.a > A.a", "evil(B.a) > A.a"))
    assert cep.why(harmless, ts=1000, untrusted=True).verdict
    for ask in (cep.why, cep.explain, cep.query):
        with pytest.raises(QueryError, match="EVIL is not allowed"):
            ask(evil, untrusted=True)
    with pytest.raises(QueryError, match="not 'secret'"):
        cep.why(f"SELECT * FROM secret {clause.format('B.a > A.a')}", {"k": 1}, untrusted=True)
    events, people = pyarrow.table({"ts": [1], "a": [2]}), pyarrow.table({"k": [2]})
    joined = "SELECT s.a AS a FROM s WINDOW(NOW), people WHERE s.a = people.k"
    found = bridge.replay({"s": events}, {"q": joined}, relations={"people": people}, untrusted=True)
    assert found["q"].num_rows == 1
    for text in (
        "SELECT evil(a) AS a FROM s",
        "SELECT s.a AS a FROM s WINDOW(NOW), pg_settings WHERE s.a = pg_settings.name",
    ):
        with pytest.raises(bridge.BridgeError, match=r"not allowed|pg_settings"):
            bridge.replay({"s": events}, {"q": text}, untrusted=True)
    with pytest.raises(QueryError, match="not allowed"):
        bridge.replay({"s": events}, {"q": bridge.IntoTable(bridge.Stream("s"), "people")}, untrusted=True)


def test_attacks_by_continuous_queries_are_refused(cep: Bridge):
    before = set(cep.queries)
    for line in lines(CONTINUOUS):
        language, _, text = line.partition(": ")
        with pytest.raises(QueryError) as refused:
            cep.create_query("attack", text, language=language, untrusted=True)
        assert "the database refuses" not in str(refused.value), text
    assert set(cep.queries) == before


@pytest.mark.parametrize(
    "node",
    [
        bridge.UpdateSQL(bridge.Stream("s"), "DELETE FROM secret WHERE k = ?", ["a"]),
        bridge.ReadSQL(bridge.Stream("s"), "SELECT k FROM secret WHERE k = ?", ["a"]),
        bridge.IntoTable(bridge.Stream("s"), "secret"),
        bridge.Filter(bridge.Stream("s"), "evil(k) = 1"),
    ],
    ids=lambda node: type(node).__name__,
)
def test_objects_are_checked_like_texts(cep: Bridge, node: Any):
    with pytest.raises(QueryError, match="not allowed in an untrusted query"):
        cep.create_query("attack", node, untrusted=True)


def test_a_refusal_names_the_place_and_a_way_out(cep: Bridge):
    with pytest.raises(QueryError) as refused:
        cep.create_query("attack", "SELECT k,\n  evil(k) AS x FROM s", untrusted=True)
    assert "the function EVIL is not allowed in an untrusted query" in str(refused.value)
    assert "(line 2, column 3)" in str(refused.value)
    with pytest.raises(QueryError, match=r"tables listed in tables=\[…\], not 'secret'.*line 1, column 15"):
        cep.query("SELECT * FROM secret", untrusted=True)


def test_a_table_of_the_list_may_be_read(cep: Bridge):
    cep.database.execute("INSERT INTO secret VALUES (7, 8)")
    assert list(cep.query("SELECT k FROM secret", untrusted=True, tables=["secret"])) == [(7,)]
    text = "SELECT s.k AS k, secret.k AS n FROM s WINDOW(ROWS 1), secret WHERE s.a = secret.k"
    cep.create_query("joined", text, untrusted=True, tables=["secret"])
    received: list[Any] = []
    cep.add_output_processor("joined", received.append)
    cep.push_event("s", ["q", 7], 2000)
    assert [event.payload for event in received] == [{"k": "q", "n": 7}]
    with pytest.raises(QueryError, match=r"tables=\['secret'\]"):
        cep.query("SELECT 1", untrusted=True, tables="secret")


def test_harmless_questions_are_answered(cep: Bridge):
    for text, rows in [
        ("SELECT k, a FROM s", [("p", 7)]),
        ("SELECT UPPER(k) AS u, ROUND(AVG(a)) AS n FROM recent GROUP BY k ORDER BY 1 LIMIT 3", [("P", 7)]),
        ("WITH t AS (SELECT a + 1 AS b FROM recent) SELECT b FROM t WHERE b BETWEEN 1 AND 9", [(8,)]),
        ("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4) SELECT MAX(i) FROM n", [(4,)]),
        ("SELECT k FROM s UNION ALL SELECT k FROM recent", [("p",), ("p",)]),
        ("SELECT a FROM s WINDOW(RANGE 5 S)", [(7,)]),
        ("SELECT REPLACE(k, 'p', 'x''y') AS t FROM recent", [("x'y",)]),
        ("SELECT a, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM recent", [(7, 1)]),
        ("SELECT * FROM recent MATCH_RECOGNIZE (ORDER BY ts MEASURES A.a AS m PATTERN (A) DEFINE A AS a > 1)", [(7,)]),
    ]:
        assert [tuple(row) for row in cep.query(text, untrusted=True)] == rows, text


def test_a_comment_that_a_database_runs_is_left_out(cep: Bridge):
    assert list(cep.query("SELECT a /*!50000 + SLEEP(60) */ /*M! + 1 */ FROM recent", untrusted=True)) == [(7,)]


@pytest.mark.parametrize("language", ["sql", "epl"])
def test_a_query_that_replaces_another_is_checked(tmp_path: Any, language: str):
    url = f"sqlite:///{tmp_path}/app.db"
    good, bad = "SELECT k FROM s WHERE a > 1", "SELECT evil(k) AS k FROM s"
    for _ in range(2):  # the second resumes the first
        with bridge.connect(url) as cep:
            if "s" not in cep.streams:
                cep.register_stream("s", "k VARCHAR, a INTEGER")
            cep.create_query("q", good, language=language, untrusted=True)
            with pytest.raises(QueryError, match="EVIL is not allowed"):
                cep.create_query("q", bad, language=language, untrusted=True, replace=True)
            with pytest.raises(QueryError, match="EVIL is not allowed"):
                cep.create_query("r", bad, language=language, untrusted=True, into="results")
            assert cep.queries == {"q": good}
            cep.create_query("r", good, language=language, untrusted=True, into="results")
            cep.remove_query("r")


# Limits ---------------------------------------------------------------------------------------------------------------

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000) SELECT COUNT(*) FROM n"
CROSS = "SELECT COUNT(*) FROM big AS a, big AS b, big AS c, big AS d WHERE a.i + b.i + c.i + d.i = 1"


def test_a_statement_is_stopped_after_its_time(cep: Bridge):
    cep.database.execute("CREATE TABLE big (i INTEGER)")
    cep.database.insert("big", 1, [(i,) for i in range(1000)])
    begin = time.monotonic()
    with pytest.raises(QueryError, match=r"stopped after 0\.3 seconds"):
        cep.query(CROSS, untrusted=True, tables=["big"], limits=Limits(seconds=0.3))
    assert time.monotonic() - begin < 5
    assert list(cep.query("SELECT a FROM recent", untrusted=True)) == [(7,)]  # the connection is as before
    cep.push_event("s", ["q", 8], 2000)
    cep.database.execute("DROP TABLE big")


def test_too_many_rows_are_an_error(cep: Bridge):
    cep.push_events("s", [(["p", a], 1000 + a) for a in range(20)])
    with pytest.raises(QueryError, match="more than 10 rows"):
        cep.query("SELECT a FROM recent", untrusted=True, limits=Limits(rows=10))
    for text in (
        "SELECT a FROM recent ORDER BY a DESC LIMIT 10",
        "SELECT a FROM recent ORDER BY a DESC LIMIT 10 OFFSET 1",
    ):
        assert len(cep.query(text, limits=Limits(rows=10))) == 10
    assert cep.query("SELECT a FROM recent ORDER BY a DESC LIMIT 50", limits=Limits(rows=100))[0] == (19,)


@pytest.mark.parametrize("limits", [{"seconds": 0}, {"rows": -1}, {"megabytes": "9"}])
def test_limits_are_above_zero(limits: dict[str, Any]):
    with pytest.raises(QueryError, match="is a number above 0"):
        Limits(**limits)


def test_memory_is_limited_on_duckdb():
    with bridge.connect() as cep:
        limit = "SELECT current_setting('memory_limit')"
        cep.database.execute("SET memory_limit = '1 GiB'")
        ((before,),) = cep.database.fetch(limit)
        for _ in range(2):
            with pytest.raises(QueryError, match=r"(?i)memory"):
                cep.query("SELECT LIST(i) FROM range(50000000) AS t (i)", untrusted=True, limits=Limits(megabytes=8))
            assert cep.database.fetch(limit) == [(before,)]


# The case files -------------------------------------------------------------------------------------------------------

STATE = (
    "ReadSQL", "UPDATE is not", "a change of", "INTO TABLE", "CREATE CONTEXT", "CREATE SCHEMA", "CREATE WINDOW", "CREATE TABLE",
    "CREATE VARIABLE", "SET of a variable", "which others use", "REGEXP",
)  # fmt: skip
"""Of refusals of texts that change what others use, and of REGEXP on SQLite."""


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.long)])
def test_harmless_texts_of_the_case_files_are_created(step: int):
    sqlite = next(each for each in DATABASES if each.name == "sqlite")
    created = [text for case in load_all()[::step] if not case.error for text in _created(case, sqlite)]
    assert len(created) > 300 / step


def _created(case: Case, database: Database) -> Iterator[str]:
    """The texts of a case that are created untrusted; the others change something."""
    with database.connect() as cep:
        for name, table in case.tables.items():
            make_table(cep, name, table)
        for name, stores in case.stores.items():
            cep.register_datastore(name, open_store(stores))
        for name, schema in case.streams.items():
            cep.register_stream(name, schema)
        for name, text in case.queries.items():
            try:
                cep.create_query(name, text, language=case.languages[name], untrusted=True, tables=list(case.tables))
                yield text
            except QueryError as error:
                if database.name in case.not_yet:
                    return
                assert any(each in str(error) for each in STATE), f"{case.id}: {error}"
                return
