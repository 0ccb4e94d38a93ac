"""The methods, all with one contract (`newkinds.methods.base`), each in a file of its own.

Which ones there are is said once, in `newkinds/__init__.pyi`: a class imported from `newkinds.methods.NAME` is the
method NAME of the command line and of run folders.
"""

from importlib import import_module
from typing import Any

from newkinds import METHOD_CLASSES
from newkinds.errors import InputError
from newkinds.methods.base import CategoryDiscoverer

METHODS: dict[str, type[CategoryDiscoverer]] = {
    name: getattr(import_module(f"newkinds.methods.{name}"), class_name)
    for name, class_name in METHOD_CLASSES.items()
}
"""Short name (command line, run folder) → method."""

globals().update({method.__name__: method for method in METHODS.values()})

__all__ = ["METHODS", "CategoryDiscoverer", "make_method"]


def make_method(name: str, **parameters: Any) -> CategoryDiscoverer:
    """A method by its short name, or InputError where there is none, or it has no such parameter."""
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}; the methods are {', '.join(METHODS)}")
    accepted = METHODS[name]().get_params()
    if foreign := [parameter for parameter in parameters if parameter not in accepted]:
        raise InputError(f"the method {name} has no option {', '.join(foreign)}")
    return METHODS[name](**parameters)
