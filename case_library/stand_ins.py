"""Stand-ins for packages that a library imports at once although this program never calls them.

LangGraph imports the clients of two services, LangSmith and the LangGraph server, an HTTP client and the old form of
pydantic's records, and Chroma its telemetry, its clients that await and what checks settings that nobody sets. None of
them is ever used here, but their imports take a third of the time to start.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_CHANGING = threading.Lock()  # of the list of finders, which is replaced because other threads walk through it
Functions = Mapping[str, Mapping[str, Callable[..., object]]]  # by module and name


class NotCalled:
    """The base of every class of a stand-in: nobody may make an object of it."""

    def __init__(self, *_: object, **__: object) -> None:
        raise RuntimeError(f"{type(self).__name__} belongs to a service that this program does not use")


class StandIn(ModuleType):
    """A module whose names are classes that nobody may use, but for the functions that it is given."""

    def __init__(self, name: str, known: Functions) -> None:
        super().__init__(name)
        self._known = known
        vars(self).update(known.get(name, {}))

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        whole = f"{self.__name__}.{name}"
        return importlib.import_module(whole) if whole in self._known else type(name, (NotCalled,), {})


class _Finder(MetaPathFinder, Loader):
    def __init__(self, packages: Sequence[str], known: Functions) -> None:
        self._packages, self._known = packages, known

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if _inside(name, self._packages) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name, self._known)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do."""


@contextmanager
def stand_ins(*packages: str, known: Functions | None = None) -> Iterator[list[str]]:
    """While inside, imports of these packages give stand-ins, unless they are imported already; yields which do.

    ``known`` holds what may be called. Afterwards the packages can be imported as they are.
    """
    free = [name for name in packages if isinstance(sys.modules.get(name), StandIn | None)]
    finder = _Finder(free, known or {})
    with _CHANGING:
        sys.meta_path = [finder, *sys.meta_path]
    try:
        yield free
    finally:
        with _CHANGING:
            sys.meta_path = [each for each in sys.meta_path if each is not finder]
        forget(*free)


def forget(*packages: str) -> None:
    """Remove packages from the imported ones, so that they are imported again when next asked for."""
    for name in list(sys.modules):  # a copy: other threads import meanwhile
        if _inside(name, packages):
            sys.modules.pop(name, None)
            parent, _, child = name.rpartition(".")
            vars(sys.modules.get(parent, ModuleType(parent))).pop(child, None)


def _inside(name: str, packages: Sequence[str]) -> bool:
    return name in packages or f"{name}.".startswith(tuple(f"{package}." for package in packages))
