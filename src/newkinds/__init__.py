"""Newkinds finds the kinds in a collection: the ones you know and the ones you don't.

The whole public surface is listed once, with its types, in `__init__.pyi` beside this file. Names are imported on
first use, so that `import newkinds` (and the command line's `--help`) does not wait for PyTorch.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_HOME = {
    alias.name: statement.module or ""
    for statement in ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}
"""Public name → the module it is in."""

METHOD_CLASSES = {
    module.removeprefix("newkinds.methods."): name
    for name, module in _HOME.items()
    if module.startswith("newkinds.methods.")
}
"""Short name of a method, which is that of its file → its class."""

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'newkinds' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
