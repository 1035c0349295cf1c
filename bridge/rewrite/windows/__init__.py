"""Windows, one file per kind: the rows that enter, and when they leave. Each kind's file registers its rewriting."""

import importlib
import pkgutil

for _kind in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_kind.name}")  # so that a new kind is a new file, and no line elsewhere
