"""The parser of one command: options may stand before, between and behind its other arguments."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TypeVar, overload

N = TypeVar("N")
FIXED_ORDER = (argparse.PARSER, argparse.REMAINDER)  # of arguments that take all that follows, as a subcommand does


class CommandParser(argparse.ArgumentParser):
    """Takes ``ask RUN --json "WHY?"`` as well as ``ask RUN "WHY?" --json``; argparse itself takes only the second."""

    _options_first = False  # while the options are taken out, which calls the same method again

    @overload
    def parse_known_args(
        self, args: Iterable[str] | None = None, namespace: None = None
    ) -> tuple[argparse.Namespace, list[str]]: ...

    @overload
    def parse_known_args(self, args: Iterable[str] | None, namespace: N) -> tuple[N, list[str]]: ...

    @overload
    def parse_known_args(self, *, namespace: N) -> tuple[N, list[str]]: ...

    def parse_known_args(self, args: Iterable[str] | None = None, namespace: object = None) -> tuple[object, list[str]]:
        """The namespace and what is left over."""
        positionals = self._get_positional_actions()
        if self._options_first or not positionals or any(each.nargs in FIXED_ORDER for each in positionals):
            return super().parse_known_args(args, namespace)
        self._options_first = True
        try:
            return self.parse_known_intermixed_args(None if args is None else list(args), namespace)
        finally:
            self._options_first = False
