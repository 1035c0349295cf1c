"""The bridge for asyncio: pushes and processors are awaited."""

from __future__ import annotations

import asyncio
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
        with pytest.raises(bridge.ProcessorError, match="no"):
            await cep.push_event("s", [1], 1)
        with pytest.raises(bridge.QueryError):
            await cep.query("SELECT nothing")
        with pytest.raises(AttributeError):
            cep.nothing  # noqa: B018
        await cep.close()
        with pytest.raises(bridge.Closed):
            await cep.push_event("s", [1], 1)

    asyncio.run(main())
