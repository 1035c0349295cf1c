"""Windows, one file per kind, which registers its rewriting: the rows that enter, and when they leave."""

import importlib
import pkgutil

for _kind in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_kind.name}")  # so a new kind only needs a new file
