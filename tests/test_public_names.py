"""What users import keeps its names and signatures: `tests/public_names.txt` lists them, and changes only on purpose."""

from __future__ import annotations

import inspect
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import bridge
import bridge.errors
import nfa
import windows.databases

PINNED = pathlib.Path(__file__).parent / "public_names.txt"
MODULES = (bridge, bridge.errors, nfa, windows.databases)


def public_names() -> Iterator[str]:
    """Each public name of the packages that the documentation has, with its signature, one a line."""
    for module in MODULES:
        for name in sorted(_exported(module)):
            yield from _signatures(f"{module.__name__}.{name}", getattr(module, name))


def _exported(module: Any) -> list[str]:
    """Of a package what it exports; of a module what it defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    here = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return [name for name in here if not name.startswith("_")]


def _signatures(path: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"class {path}{_signature(value)}"
        own = [base for base in value.__mro__ if base.__module__.split(".")[0] in ("bridge", "nfa", "windows")]
        for name in sorted({name for base in own for name in vars(base)}):
            if not name.startswith("_"):
                yield from _signatures(f"{path}.{name}", inspect.getattr_static(value, name))
    elif isinstance(value, property):
        yield f"property {path}"
    elif isinstance(value, (classmethod, staticmethod)):
        yield f"{path}{_signature(value.__func__)}"
    elif callable(value):
        yield f"{path}{_signature(value)}"
    else:
        yield path


def _signature(value: Any) -> str:
    """The parameters with their defaults; types may become more exact."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    return re.sub(r"<function (\w+) at 0x\w+>", r"\1", text)


def test_public_names_stay(request: Any):
    text = "".join(f"{line}\n" for line in public_names())
    if request.config.getoption("--update-plans"):
        PINNED.write_text(text)
    assert text == PINNED.read_text(), "a public name or signature has changed; on purpose: pytest --update-plans"
