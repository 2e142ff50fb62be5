"""Discuss a run in the terminal."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import add_run_arguments, loaded_settings, number_between, request_of
from hermes_agent.locations.places import Place, local
from tools.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hermes_agent.config.settings import Settings
    from hermes_agent.confirm import Confirmation, RunOf
    from hermes_agent.model.request import Request
    from hermes_agent.tui.history import Store
    from hermes_agent.tui.work import ChatSession, Openings

PORT = 8137
# New objects between two searches for cycles, searches of these before one in what they left, and of those before one
# in everything, which took up to 160 ms while a run was diagnosed; one in 100,000 new objects took up to 90 ms.
GARBAGE_SEARCH_EVERY = (10_000, 5, 100)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``chat``."""
    add_run_arguments(parser, "*")
    parser.add_argument("--no-llm", action="store_true", help="answer from templates even if a model is configured")
    served = f"show the chat in a browser of this machine (127.0.0.1 only); default port {PORT}"
    parser.add_argument("--serve", nargs="?", const=PORT, type=number_between(1024, 65535), metavar="PORT", help=served)
    kept = "open a kept session again; without ID, choose one from a list"
    parser.add_argument("--resume", nargs="?", const="", metavar="ID", help=kept)


def run(args: argparse.Namespace) -> int:
    """Open the chat; returns when it is left."""
    if args.baseline and not args.run_paths:
        raise UsageError("--baseline needs a RUN to compare with it: hermes-dx chat RUN --baseline RUN")
    if args.resume is not None and args.run_paths:
        raise UsageError("--resume opens the run of its session; leave RUN out")
    if args.resume is not None and args.no_cache:
        raise UsageError("--resume reads the cache; leave --no-cache out")
    if args.serve is not None:
        from hermes_agent.cli.terminal import note
        from hermes_agent.tui.serve import serve

        serve(command_of(args), args.serve, note)
        return ExitCode.OK

    def load() -> Openings:
        chosen = loaded_settings(no_llm=args.no_llm)
        return replace(openings(request_of(args, chosen), chosen, args.resume), notes=chosen.notes)

    return open_chat(load, greets=not args.run_paths and args.resume is None)


def command_of(args: argparse.Namespace) -> list[str]:
    """The command that opens the same chat in a terminal."""
    words = [sys.executable, "-m", "hermes_agent.cli.main", "chat", *map(str, args.run_paths)]
    for each in args.baseline:
        words += ["--baseline", str(each)]
    words += ["--steps", f"{args.steps[0]}:{args.steps[1]}"] if args.steps else []
    words += ["--ranks", ",".join(map(str, args.ranks))] if args.ranks else []
    words += ["--resume", *filter(None, (args.resume,))] if args.resume is not None else []
    return [*words, *(["--no-cache"] if args.no_cache else []), *(["--no-llm"] if args.no_llm else [])]


def open_chat(load: Callable[[], Openings], *, greets: bool = False) -> int:
    """Open the chat, which reads the settings after its first paint; ``greets`` where no run is given."""
    from hermes_agent.tui.serve import is_served

    if not is_served(os.environ) and not all(
        stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)
    ):  # Textual draws on standard error
        raise UsageError('the chat needs a terminal; in scripts use: hermes-dx ask RUN "QUESTION"')
    from hermes_agent.cli.terminal import raise_on_interrupt
    from hermes_agent.tui.app import HermesChat
    from hermes_agent.tui.messages import glyphs_for

    glyphs = glyphs_for(sys.stdout.encoding, os.environ)
    raise_on_interrupt()
    search_garbage_in_short_passes()
    chat = HermesChat(load, glyphs, greets=greets)
    code = chat.run() or 0
    if chat.failure is not None:
        raise chat.failure
    return code


def search_garbage_in_short_passes() -> None:
    """Search for cycles often in new objects and hardly ever in old ones: a search stops all threads while it lasts."""
    gc.set_threshold(*GARBAGE_SEARCH_EVERY)


def openings(request: Request, chosen: Settings, resume: str | None = None) -> Openings:
    """Return the ways to open a session; ``request`` is that of the command line, maybe without a run."""
    from hermes_agent.demo.data import demo_run
    from hermes_agent.tui.work import Openings

    def session(wanted: Request) -> ChatSession:
        from hermes_agent.session import Session

        return Session(wanted, chosen, asks=True)

    def path(paths: tuple[Place, ...]) -> ChatSession:
        here = tuple(local(each, request.cache_dir) for each in paths)
        return session(replace(request, paths=here, baseline=(), steps=None, ranks=()))

    given = (lambda: session(request)) if request.paths else None
    title = request.paths[0].resolve().name if request.paths else ""

    def draft(found: Confirmation, before: RunOf) -> tuple[str, ...]:
        from hermes_agent.cli.commands.confirm import drafted

        return drafted(found, before, chosen)

    def store() -> Store:
        from hermes_agent.sessions.store import SessionStore

        assert request.cache_dir is not None
        return SessionStore(request.cache_dir)

    return Openings(
        path,
        lambda: path((demo_run(),)),
        given,
        title,
        chosen.llm.model,
        chosen.thresholds,
        session,
        store if request.cache_dir else None,
        resume,
        draft=draft,
    )
