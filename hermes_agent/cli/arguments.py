"""Arguments that several commands share, and the settings, requests and runs made of them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hermes_agent.locations.places import PASTED, Place, local, place
from tools.errors import InputError, UsageError

if TYPE_CHECKING:
    from case_library.retrieval.embedding_choice import EmbeddingChoice
    from hermes_agent.config.settings import Settings
    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.model.request import Request
    from tools.views.profile import Profile

Parser = TypeVar("Parser", bound=argparse.ArgumentParser)
MOST_RANKS = 1 << 20
RUN_HELP = (
    "trace file, job output, folder with traces or records, a URL of one (fsspec), a name of `hermes-dx runs`, or - "
    "for text from standard input"
)


def add_commands(subparsers: argparse._SubParsersAction[Parser], package: str, names: Iterable[str], dest: str) -> None:
    """Declare the modules of a package as subcommands; ``dest`` receives ``run`` of the chosen one.

    Each has ``add_arguments(parser)`` and ``run(args)``, imports heavy packages there; its docstring is the help.
    """
    for name in names:
        command = import_module(f"{package}.{name}")
        text = (command.__doc__ or name).rstrip(".")
        parser = subparsers.add_parser(name, help=text[:1].lower() + text[1:], description=f"{text}.")
        command.add_arguments(parser)
        parser.set_defaults(**{dest: command.run})


def add_run_arguments(parser: argparse.ArgumentParser, nargs: str = "+", *, baseline: bool = True) -> None:
    """Declare the runs to read and the part of them to use."""
    optional = "" if nargs == "+" else "; optional"
    parser.add_argument("run_paths", nargs=nargs, metavar="RUN", type=place, help=RUN_HELP + optional)
    add_selection_arguments(parser, baseline=baseline)


def add_selection_arguments(parser: argparse.ArgumentParser, *, baseline: bool = True) -> None:
    """Declare the baseline, the restrictions to steps and ranks, and the cache."""
    if baseline:
        help_text = "run to compare with; may be repeated"
        parser.add_argument("--baseline", action="append", default=[], type=place, metavar="RUN", help=help_text)
    parser.add_argument("--steps", metavar="A:B", type=step_range, help="only the steps A to B, inclusive")
    parser.add_argument("--ranks", metavar="R[,R...]", type=rank_numbers, default=(), help="only these ranks")
    help_text = "how step lines of a log look that no known program prints, with groups such as (?P<step>...)"
    parser.add_argument("--log-pattern", metavar="PATTERN", default="", help=help_text)
    parser.add_argument("--no-cache", action="store_true", help="do not use or write the cache")


def add_summary_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where the summaries of many ranks lie and who makes those that are missing."""
    text = "folder or URL with the summaries that `hermes-dx reduce` made of many ranks; default: the cache"
    parser.add_argument("--summaries", metavar="FOLDER", default="", help=text)
    text = 'Dask scheduler whose workers summarize many ranks; "local" starts one'
    parser.add_argument("--dask", metavar="ADDRESS", default="", help=text)


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``steps`` and ``ranks``."""
    add_run_arguments(parser, baseline=False)
    add_summary_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")


def step_range(text: str) -> tuple[int, int]:
    """Read ``5:9`` or ``5``."""
    first, colon, last = text.partition(":")
    try:
        chosen = int(first), int(last if colon else first)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of steps; write A:B, for example 5:9") from None
    if chosen[0] > chosen[1]:
        raise argparse.ArgumentTypeError(f"{text!r} ends before it begins; write the smaller step first")
    return chosen


def rank_numbers(text: str) -> tuple[int, ...]:
    """Read ``0,3`` or ``0-3``."""
    chosen: set[int] = set()
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            span = range(int(first), int(last if dash else first) + 1)
            if not span or len(chosen) + len(span) > MOST_RANKS:
                raise ValueError
            chosen.update(span)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of ranks; write for example 0,3 or 0-3") from None
    return tuple(sorted(chosen))


def number_between(low: int, high: int) -> Callable[[str], int]:
    """Return a reader of whole numbers in a range."""

    def read(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return read


def input_bytes(path: Path | None, largest: int) -> bytes:
    """Read a file, or standard input for None.

    Raises InputError where it cannot be read or holds more than ``largest`` bytes.
    """
    name = "standard input" if path is None else str(path)
    try:
        if path is None:
            content = sys.stdin.buffer.read(largest + 1)
        else:
            with path.open("rb") as file:
                content = file.read(largest + 1)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}; name a file that can be read") from None
    if len(content) > largest:
        raise InputError(f"{name}: larger than {largest >> 20} MiB; give a shorter input")
    return content


def settings(*, no_llm: bool = False) -> Settings:
    """Return the configuration for this folder."""
    from hermes_agent.cli.terminal import note

    loaded = loaded_settings(no_llm=no_llm)
    for text in loaded.notes:
        note(text)
    return loaded


def loaded_settings(*, no_llm: bool = False) -> Settings:
    """Return the configuration for this folder; its notes are for the caller to show."""
    from hermes_agent.config.settings import Settings

    loaded = Settings.load(Path.cwd(), os.environ)
    return loaded.without_model() if no_llm else loaded


def embedding(chosen: Settings) -> EmbeddingChoice:
    """Return the embedding of case search."""
    from hermes_agent.llm.redact import Redactor

    return chosen.embedding(os.environ, Redactor().mask)


def request_of_service(chosen: Settings) -> Request:
    """Return the request without a run that a service fills in for each run it opens."""
    from hermes_agent.model.request import Request

    return Request(
        paths=(),
        thresholds=chosen.thresholds,
        log_pattern=chosen.log_pattern or "",
        cache_dir=chosen.cache_dir,
        private_cases=chosen.cases.private_dir,
        embedding=embedding(chosen),
    )


def request_of(args: argparse.Namespace, chosen: Settings) -> Request:
    """Return the diagnosis that the arguments ask for."""
    from hermes_agent.model.request import Request

    cache_dir = None if args.no_cache else chosen.cache_dir
    log_pattern = log_pattern_of(args, chosen)
    return Request(
        paths=tuple(_read_from(each, cache_dir, log_pattern) for each in named_places(args.run_paths, chosen)),
        baseline=tuple(local(each, cache_dir) for each in named_places(getattr(args, "baseline", ()), chosen)),
        steps=args.steps,
        ranks=args.ranks,
        thresholds=chosen.thresholds,
        log_pattern=log_pattern,
        cache_dir=cache_dir,
        summaries=getattr(args, "summaries", ""),
        dask=getattr(args, "dask", ""),
        private_cases=chosen.cases.private_dir,
        embedding=embedding(chosen),
    )


def named_places(places: Iterable[Place], chosen: Settings) -> list[Place]:
    """Return the places with the paths of registered runs in place of their names; a path that exists stays one.

    Raises UsageError for a word that is neither but nearly a registered name, InputError where files of a run are gone.
    """
    return [path for each in places for path in _named(each, chosen)]


def _named(where: Place, chosen: Settings) -> Sequence[Place]:
    from hermes_agent.registered_runs import RegisteredRuns, is_name

    no_name = not isinstance(where, Path) or where == PASTED or not is_name(str(where)) or os.path.lexists(where)
    if no_name or chosen.runs_file is None:
        return (where,)
    runs = RegisteredRuns.load(chosen)
    if str(where) in runs.runs:
        return runs.get(str(where)).paths
    if near := runs.near(str(where)):
        raise UsageError(f"{where}: there is no such file, folder or registered run; did you mean {', '.join(near)}?")
    return (where,)


def log_pattern_of(args: argparse.Namespace, chosen: Settings) -> str:
    """Return how step lines of a log look by option or settings; UsageError where that is no pattern."""
    text = getattr(args, "log_pattern", "") or chosen.log_pattern or ""
    if text:
        from tools.sources.job_log.grammars.given_pattern import GivenPattern

        GivenPattern(text)
    return text


def _read_from(where: Place, cache_dir: Path | None, log_pattern: str) -> Path:
    """A run's path; of ``-`` the folder with what standard input holds."""
    if where != PASTED:
        return local(where, cache_dir)
    from hermes_agent.locations.paste import pasted, standard_input

    return pasted(standard_input(), cache_dir, log_pattern)


def profile_of(request: Request) -> Profile:
    """Read the run of a request; raises InputError when there is none, UsageError for unknown ranks or steps."""
    from hermes_agent.cli.terminal import TerminalProgress
    from hermes_agent.locations.reading import read_run
    from tools.knowledge.thresholds import Thresholds
    from tools.views.profile import Profile

    with TerminalProgress() as progress:
        run = read_run(request, progress)
    return Profile(run, Thresholds(dict(request.thresholds)))


def latest_diagnosis(chosen: Settings, remedy: str) -> tuple[Request, Diagnosis]:
    """Return the last diagnosis made in this folder and its request; raises UsageError with the ``remedy``."""
    from hermes_agent.workflow import stored

    latest = stored.latest(chosen.cache_dir) if chosen.cache_dir else None
    diagnosis = stored.find(chosen.cache_dir, latest[0]) if chosen.cache_dir and latest else None
    if latest is None or diagnosis is None:
        raise UsageError(f"no diagnosis made in {Path.cwd()} is in the cache {chosen.cache_dir}; {remedy}")
    return latest[1], diagnosis


def writable(path: Path) -> Path:
    """Return the path of a file to write, checked before any work is done."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file to write")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}; create it first")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path}: no permission to write it; choose another place")
    return path
