"""The bridge for asyncio: pushes and processors are awaited."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import pytest

import bridge


def test_tasks_push_and_processors_are_awaited(tmp_path: Any) -> None:
    received: list[Any] = []

    async def main() -> None:
        async with bridge.aio.connect(f"sqlite:///{tmp_path}/a.db") as cep:
            await cep.register_stream("s", "k VARCHAR, v INTEGER")
            await cep.register_stream("doubled", "v INTEGER")
            await cep.create_query("q", "SELECT v FROM s WHERE v > 0")
            await cep.create_query("r", "SELECT v FROM doubled")

            async def double(event: Any) -> None:
                await asyncio.sleep(0.001)
                await cep.push_event("doubled", [2 * event.payload["v"]], event.timestamp)

            async def note(result: Any) -> None:
                await asyncio.sleep(0)
                received.append(result.payload["v"])

            await cep.add_output_processor("q", double)
            await cep.add_output_processor("r", note, name="note")
            await asyncio.gather(*(cep.push_event("s", ["a", number], 1000) for number in range(20)))
            await cep.advance_time(2000)
            assert list(cep.streams) == ["s", "doubled"]
            assert len(await cep.results("r")) == 19

    asyncio.run(main())
    assert received == [2 * number for number in range(1, 20)]


def test_errors_are_those_of_the_bridge() -> None:
    async def main() -> None:
        cep = await bridge.aio.connect()
        await cep.register_stream("s", "a INTEGER")
        await cep.create_query("q", "SELECT a FROM s")

        async def fail(event: Any) -> None:
            raise ValueError("no")

        await cep.add_output_processor("q", fail)
        with pytest.raises(bridge.ProcessorError, match=r"the output processor .* of '.*' raised .*no"):
            await cep.push_event("s", [1], 1)
        with pytest.raises(bridge.QueryError):
            await cep.query("SELECT nothing")
        with pytest.raises(AttributeError):
            cep.nothing  # noqa: B018
        await cep.close()
        with pytest.raises(bridge.Closed):
            await cep.push_event("s", [1], 1)

    asyncio.run(main())


def test_a_closed_bridge_says_so_and_may_be_closed_again() -> None:
    async def main() -> None:
        async with bridge.aio.connect() as cep:
            await cep.register_stream("s", "a INTEGER")
        await cep.close()
        for call in (cep.status, cep.flush, lambda: cep.push_event("s", [1], 1), lambda: cep.query("SELECT 1")):
            with pytest.raises(bridge.Closed):
                await call()

    asyncio.run(main())


def test_a_bridge_that_was_not_awaited_says_how_it_is_opened() -> None:
    cep = bridge.aio.connect()
    with pytest.raises(AttributeError, match=r"cep = await connect\(…\), has 'push_event'"):
        cep.push_event("s", [1], 1)  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="async with"), cep:
        pass


def test_run_beside_other_tasks_until_it_is_stopped(tmp_path: Any) -> None:
    received: list[Any] = []

    async def main() -> None:
        async with bridge.aio.connect(f"sqlite:///{tmp_path}/a.db", clock="system") as cep:
            await cep.register_stream("pushed", "v INTEGER")
            cep.database.execute("CREATE TABLE readings (id INTEGER PRIMARY KEY)")
            await cep.register_stream("readings", table="readings", position="id")
            await cep.create_query("q", "SELECT id FROM readings")

            async def note(event: Any) -> None:
                received.append(event.payload["id"])
                if event.payload["id"] == 2:
                    raise RuntimeError("logged")

            await cep.add_output_processor("q", note)
            running = asyncio.create_task(cep.run(poll="5 MS"))
            for number in range(1, 4):
                await cep.push_event("pushed", [number])
                other = sqlite3.connect(tmp_path / "a.db")
                other.execute("INSERT INTO readings VALUES (?)", [number])
                other.commit()
                other.close()
                while len(received) < number:
                    await asyncio.sleep(0.01)
                    assert not running.done()
            await cep.stop()
            await asyncio.wait_for(running, 5)

    asyncio.run(asyncio.wait_for(main(), 60))
    assert received == [1, 2, 3]
