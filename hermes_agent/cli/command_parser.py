"""The parser of one command: options stand anywhere among its other arguments, and a misspelt word has a suggestion."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar, overload

N = TypeVar("N")
FIXED_ORDER = (argparse.PARSER, argparse.REMAINDER)  # of arguments that take all that follows, as a subcommand does


UNKNOWN = re.compile(r"invalid choice: '([^']*)'|unrecognized arguments: .*?(--[A-Za-z-]+)")  # as argparse says it


class CommandParser(argparse.ArgumentParser):
    """Takes ``ask RUN --json "WHY?"`` as well as ``ask RUN "WHY?" --json``; argparse itself takes only the second."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - what argparse takes
        """An option is typed whole: a shorter word could mean another one tomorrow."""
        super().__init__(**{"allow_abbrev": False, **given})

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
        """The namespace; an argument that the command does not know is an error of the command itself."""
        found, left = self._parsed(args, namespace)
        if left and not self._options_first:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left

    def error(self, message: str) -> NoReturn:
        """End with the usage error, and the nearest command or option where one is near."""
        super().error(message + self._suggestion(message))

    def _suggestion(self, message: str) -> str:
        found = UNKNOWN.search(message)
        if found is None:
            return ""
        word = found[1] or found[2]
        known = {str(each) for action in self._actions for each in action.choices or ()}
        options = list(self._option_string_actions)
        near = [each for each in options if found[2] and each.startswith(word)]
        near = near or get_close_matches(word, sorted(known) if found[1] else options, 1)
        return f"; did you mean {near[0]}?" if near else ""

    def _parsed(self, args: Iterable[str] | None, namespace: object) -> tuple[object, list[str]]:
        positionals = self._get_positional_actions()
        if self._options_first or not positionals or any(each.nargs in FIXED_ORDER for each in positionals):
            return super().parse_known_args(args, namespace)
        self._options_first = True
        try:
            return self.parse_known_intermixed_args(None if args is None else list(args), namespace)
        finally:
            self._options_first = False
