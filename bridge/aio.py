"""A bridge for asyncio: `async with bridge.aio.connect(url) as cep`."""

from __future__ import annotations

from bridge.engine.aio import AsyncBridge, Opening, connect

__all__ = ["AsyncBridge", "Opening", "connect"]
