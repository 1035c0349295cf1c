"""Long tests run only when they are asked for by a marker expression, as `-m long`."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "long" in item.keywords and not config.option.markexpr:
            item.add_marker(pytest.mark.skip(reason="long; select with -m long"))
