"""Watch a running training, detect anomalies, profile suspect ranks."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import number_between, rank_numbers
from hermes_agent.cli.terminal import note
from tools.errors import ExitCode, InputError, UsageError

if TYPE_CHECKING:
    from hermes_agent.watch.agent import NodeAgent, Noticed
    from hermes_agent.watch.rings import RunRings

PROFILE = "profile"
ANSWER_LIMIT_S = 600.0
POLL_S = 0.1
DRAW_S = 0.25


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``monitor`` and ``monitor profile``."""
    count, port = number_between(1, 1000), number_between(0, 65535)
    folder = "folder that the training's monitor writes to (HERMES_DX_RUN_FOLDER, else hermes-run)"
    parser.add_argument(
        "words", nargs="*", metavar="RUN_FOLDER", help=f"{folder}; `profile RUN_FOLDER` profiles ranks now"
    )
    parser.add_argument("--until-end", action="store_true", help="end when the training has ended")
    parser.add_argument("--json", action="store_true", help="print anomalies as JSON lines, without the table")
    parser.add_argument("--prometheus", type=port, metavar="PORT", help="serve figures on 127.0.0.1:PORT")
    parser.add_argument("--publish", metavar="URL", help="copy records and traces there every minute (needs fsspec)")
    parser.add_argument("--no-capture", action="store_true", help="do not profile ranks")
    often = "captures without being asked, at most N an hour; default %(default)s"
    parser.add_argument("--captures-per-hour", type=count, default=4, metavar="N", help=often)
    parser.add_argument("--steps", type=count, default=3, metavar="N", help="steps in a capture; default %(default)s")
    parser.add_argument("--ranks", type=rank_numbers, default=(), metavar="R[,R...]", help="profile: only these ranks")


def run(args: argparse.Namespace) -> int:
    """Watch until interrupted, or ask for one capture and wait for it."""
    profile = args.words[:1] == [PROFILE]
    if args.words == [PROFILE] and Path(PROFILE).is_dir():
        raise UsageError(
            f"{PROFILE} is a folder here and an action: write `monitor ./{PROFILE}` to watch that folder, "
            f"or `monitor {PROFILE} RUN_FOLDER` to profile ranks"
        )
    rest = args.words[1:] if profile else args.words
    if len(rest) > 1:
        raise UsageError(f"one run folder can be watched, {len(rest)} were given")
    folder = Path(rest[0] if rest else os.environ.get("HERMES_DX_RUN_FOLDER") or "hermes-run")
    try:
        is_folder = folder.is_dir()
    except OSError as error:
        raise UsageError(f"{folder}: cannot be opened ({error.strerror}); check its path and permissions") from error
    if not is_folder:
        raise UsageError(f"{folder}: there is no such folder; the training's monitor makes it when it starts")
    return _profile(folder, args) if profile else _watch(folder, args)


def _watch(folder: Path, args: argparse.Namespace) -> int:
    from hermes_agent.watch.agent import AgentOptions, NodeAgent
    from hermes_agent.watch.rings import RequestLimits
    from hermes_agent.watch.view import PrometheusExport, Publisher

    limits = RequestLimits(steps=args.steps, per_hour=args.captures_per_hour)
    agent = NodeAgent(folder, AgentOptions(capture=not args.no_capture, limits=limits))
    export = PrometheusExport(args.prometheus) if args.prometheus is not None else None
    publisher = Publisher(folder, args.publish, agent.left_out) if args.publish else None
    with ExitStack() as ending:
        if publisher is not None:
            ending.callback(publisher.publish)
        if export is not None:
            ending.callback(export.close)
        table = not args.json and sys.stdout.isatty()
        show = ending.enter_context(_table(agent)) if table else partial(_print_lines, as_json=args.json)
        while True:
            show(agent.poll())
            for sentence in agent.left_out.take():
                note(sentence)
            if export is not None:
                export.show(agent.snapshot())
            if publisher is not None and publisher.due(time.monotonic()):
                try:
                    publisher.publish()
                except InputError as error:  # the next minute may be better; at the end it counts
                    agent.left_out.add(str(error))
            if args.until_end and agent.seen_any and not agent.alive:
                return ExitCode.OK
            time.sleep(agent.pause_s)


def _print_lines(found: list[Noticed], *, as_json: bool) -> None:
    from hermes_agent.evidence.printable import printable
    from hermes_agent.watch import journal, view

    for noticed in found:
        record = journal.line_of(noticed.anomaly, time.time_ns(), noticed.foreign)
        record["capture"] = asdict(noticed.capture) if noticed.capture else None
        print(json.dumps(record) if as_json else printable(view.line_of(noticed)), flush=True)


@contextmanager
def _table(agent: NodeAgent) -> Iterator[Callable[[list[Noticed]], None]]:
    """A table of the ranks that is drawn again a few times per second."""
    from rich.live import Live

    from hermes_agent.watch.view import picture

    shown_s = 0.0
    with Live(picture(agent.snapshot()), auto_refresh=False) as live:

        def show(_: list[Noticed]) -> None:
            nonlocal shown_s
            if time.monotonic() - shown_s > DRAW_S:
                shown_s = time.monotonic()
                live.update(picture(agent.snapshot()), refresh=True)

        yield show
        live.update(picture(agent.snapshot()), refresh=True)


def _profile(folder: Path, args: argparse.Namespace) -> int:
    from hermes_agent.watch.rings import CaptureRequests, RequestLimits, RunRings

    rings = RunRings(folder)
    rings.refresh()
    alive = [rank for rank in rings.ranks() if rings.state(rank).alive]
    missing = sorted(set(args.ranks) - set(alive))
    if not alive or missing:
        what = f"rank {missing[0]} does not run" if missing else "no rank runs"
        raise UsageError(f"{folder}: {what} on this machine; ask where it runs")
    ranks = list(args.ranks) or alive
    records = rings.new()
    last_step = max((rows[-1].step for rank in ranks if (rows := records[rank])), default=-1)
    capture = CaptureRequests(folder, rings, RequestLimits()).by_hand(ranks, args.steps, last_step)
    for sentence in rings.left_out.take():
        note(sentence)
    if capture.refused:
        raise InputError(f"{folder}: {capture.refused}")
    note(f"capture {capture.request} requested")
    return _await(folder, rings, capture.request, ranks)


def _await(folder: Path, rings: RunRings, request: int, ranks: list[int]) -> int:
    """Wait until every rank has written its trace or said why not; print the traces."""
    from hermes_agent.monitor.format import Answer, capture_folder

    waiting, failed = set(ranks), False
    deadline_s = time.monotonic() + ANSWER_LIMIT_S
    while waiting:
        for rank in sorted(waiting):
            about, answer, step, reason = rings.answer(rank)
            if about == request and answer == Answer.WRITTEN:
                print(capture_folder(folder, request) / f"rank{rank}.pt.trace.json.gz", flush=True)
            elif about == request and answer in (Answer.REFUSED, Answer.FAILED):
                failed = True
                note(f"rank {rank} did not profile at step {step}: {reason}")
            elif rings.state(rank).alive and time.monotonic() < deadline_s:
                continue
            else:
                failed = True
                note(f"rank {rank} gave no answer before it ended or time ran out")
            waiting.discard(rank)
        time.sleep(POLL_S)
    return ExitCode.INPUT if failed else ExitCode.OK
