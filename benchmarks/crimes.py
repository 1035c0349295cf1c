"""The query on Chicago's crimes of Zhu, Huang and Chaudhuri (VLDB 2023), on random crimes.

7.2 million crimes of 35 types in 20 years, with the frequencies of the city's records, times in whole minutes, and places
that are denser in the middle. The limit of 30 minutes is a WITHIN here, so it is exclusive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

FREQUENT = {
    "THEFT": 21.1, "BATTERY": 18.3, "CRIMINAL DAMAGE": 11.4, "NARCOTICS": 9.6, "ASSAULT": 6.5, "OTHER OFFENSE": 6.2,
    "BURGLARY": 5.5, "MOTOR VEHICLE THEFT": 4.7, "DECEPTIVE PRACTICE": 4.1, "ROBBERY": 3.8, "CRIMINAL TRESPASS": 2.8,
    "WEAPONS VIOLATION": 1.2, "PROSTITUTION": 0.9, "PUBLIC PEACE VIOLATION": 0.7, "OFFENSE INVOLVING CHILDREN": 0.7,
}  # fmt: skip
"""The frequencies in percent; RARE rare types share the rest."""

RARE = 20

PLACES = """
    SELECT i AS id, 978307200000 + floor(i * 1.461 + 360 * u1)::BIGINT * 60000 AS ts, 100 * u2 AS drawn,
           -87.74 + 0.2 * (u3 + u4 - 1) AS lon, 41.84 + 0.2 * (u5 + u6 - 1) AS lat
    FROM (SELECT i, {numbers} FROM range({{rows}}) AS t(i))""".format(
    numbers=", ".join(f"(hash(8 * i + {k}) >> 11) / 9007199254740992.0 AS u{k}" for k in range(1, 7))
)
"""One crime per minute and a half, recorded up to six hours later, so that the ids are nearly in the order of time."""


def _types() -> str:
    names, reached = [], 0.0
    for name, percent in FREQUENT.items():
        reached += percent
        names.append(f"WHEN drawn < {reached:.1f} THEN '{name}'")
    rest = f"'RARE ' || floor((drawn - {reached:.1f}) / {100 - reached:.1f} * {RARE})::INTEGER"
    return f"CASE {' '.join(names)} ELSE {rest} END"


CRIMES = f"SELECT id, ts, {_types()} AS primary_type, lon, lat FROM ({PLACES})"

NEAR = "{x}.lon BETWEEN R.lon - 0.05 AND R.lon + 0.05 AND {x}.lat BETWEEN R.lat - 0.02 AND R.lat + 0.02"

CRIMES_CLAUSE = f"""ORDER BY ts, id MEASURES R.id AS rid, B.id AS bid, M.id AS mid, COUNT(Z.id) AS gap
        ONE ROW PER MATCH AFTER MATCH SKIP {{skip}} PATTERN (R Z* B Z* M) WITHIN INTERVAL '30' MINUTE
        DEFINE R AS R.primary_type = 'ROBBERY',
               B AS B.primary_type = 'BATTERY' AND {NEAR.format(x="B")},
               M AS M.primary_type = 'MOTOR VEHICLE THEFT' AND {NEAR.format(x="M")}"""

CRIMES_STATEMENT = f"""
    WITH placed AS (
        SELECT id, ts, lon, lat, primary_type, ts // 1800000 AS bucket, row_number() OVER (ORDER BY ts, id) AS place
        FROM t QUALIFY primary_type IN ('ROBBERY', 'BATTERY', 'MOTOR VEHICLE THEFT')),
    robbery AS (SELECT *, unnest([bucket, bucket + 1]) AS near FROM placed WHERE primary_type = 'ROBBERY'),
    theft AS (
        SELECT R.place AS start, max(M.place) AS m FROM robbery AS R JOIN placed AS M
            ON M.bucket = R.near AND M.ts < R.ts + 1800000 AND M.place > R.place AND {NEAR.format(x="M")}
        WHERE M.primary_type = 'MOTOR VEHICLE THEFT' GROUP BY R.place),
    battery AS (
        SELECT R.place AS start, any_value(R.id) AS rid, any_value(theft.m) AS m, max(B.place) AS b
        FROM robbery AS R JOIN theft ON theft.start = R.place JOIN placed AS B
            ON B.bucket = R.near AND B.place > R.place AND B.place < theft.m AND {NEAR.format(x="B")}
        WHERE B.primary_type = 'BATTERY' GROUP BY R.place)
    SELECT rid, B.id AS bid, M.id AS mid, m - start - 2 AS gap
    FROM battery JOIN placed AS B ON B.place = b JOIN placed AS M ON M.place = m"""
"""The latest theft, then the latest battery before it. That is what Z* prefers, as no condition of M reads B."""


def past_last_row(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The matches of TO NEXT ROW without those that begin before the end of the match before."""
    import pyarrow as pa

    matches: pa.Table = connection.sql(
        f"""SELECT matches.*, R.place AS start, R.place + gap + 2 AS ending FROM ({CRIMES_STATEMENT}) AS matches
            JOIN (SELECT id, row_number() OVER (ORDER BY ts, id) AS place FROM t) AS R ON R.id = rid ORDER BY start"""
    ).to_arrow_table()
    separate: list[bool] = []
    reached = 0
    for _, _, _, _, start, ending in zip(*(column.to_pylist() for column in matches.columns), strict=True):
        separate.append(start > reached)
        reached = ending if start > reached else reached
    rows: pa.Table = matches.filter(pa.array(separate, pa.bool_())).select(["rid", "bid", "mid", "gap"])
    return rows
