"""The methods, all with one contract (`newkinds.methods.base`), each in a file of its own.

Which ones there are is said once, in `newkinds/__init__.pyi`: a class imported from `newkinds.methods.NAME` is the
method NAME of the command line and of run folders.
"""

from importlib import import_module

from newkinds import METHOD_CLASSES
from newkinds.methods.base import CategoryDiscoverer

METHODS: dict[str, type[CategoryDiscoverer]] = {
    name: getattr(import_module(f"newkinds.methods.{name}"), class_name)
    for name, class_name in METHOD_CLASSES.items()
}
"""Short name (command line, run folder) → method."""

globals().update({method.__name__: method for method in METHODS.values()})

__all__ = ["METHODS", "CategoryDiscoverer"]
