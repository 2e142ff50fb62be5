"""Check the installation: packages, extras, formats, settings, cache, and the model with --online."""

from __future__ import annotations

import argparse
import platform
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hermes_agent.cli.terminal import print_json
from hermes_agent.version import VERSION
from tools.errors import ExitCode, HermesError

if TYPE_CHECKING:
    from hermes_agent.config.settings import Settings

SCHEMA = "hermes-dx/doctor/1"
Status = Literal["ok", "missing", "wrong", "not_checked"]
MARKS: dict[Status, str] = {"ok": "ok", "missing": "--", "wrong": "!!", "not_checked": "? "}
DISTRIBUTION = "hermes-dx"
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?([^;]*)(?:;\s*extra == ['\"]([a-z]+)['\"])?")
BOUND = re.compile(r"(>=|==|<)\s*([\d.]+)")  # as pyproject.toml writes the versions that were tried
FOR_DEVELOPMENT = ("dev", "bench", "inspect", "lab")  # extras of no use to who diagnoses runs
ANSWER_TOKENS = 64


@dataclass(frozen=True)
class Line:
    """One thing that was looked at; ``remedy`` is a command or a sentence where it is not as it should be."""

    section: str
    name: str
    status: Status
    value: str = ""
    remedy: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``doctor``."""
    parser.add_argument("--online", action="store_true", help="ask the configured model for one word, too")
    parser.add_argument("--json", action="store_true", help="print the lines as JSON")


def run(args: argparse.Namespace) -> int:
    """Print every line; exit code 3 where something needed is missing or wrong (an extra that is missing is not)."""
    lines = [*installation(), *formats(), *configuration(Path.cwd(), online=args.online)]
    if args.json:
        print_json({"schema": SCHEMA, "rows": [asdict(line) for line in lines]})
    else:
        print(_text(lines))
    faulty = any(line.status == "wrong" or (line.status, line.section) == ("missing", "packages") for line in lines)
    return ExitCode.INPUT if faulty else ExitCode.OK


def installation() -> Iterator[Line]:
    """The program, the packages that it needs, and the extras."""
    from importlib.metadata import PackageNotFoundError, distribution

    where = f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()}"
    yield Line("program", DISTRIBUTION, "ok", f"{VERSION}, {Path(__file__).resolve().parents[3]}")
    yield Line("program", "Python", "ok", where)
    try:
        requires = distribution(DISTRIBUTION).requires or []
    except PackageNotFoundError:
        yield Line("packages", DISTRIBUTION, "wrong", "not installed, only its files are here", "pip install .")
        return
    needed: dict[str, dict[str, str]] = {}
    for requirement in requires:
        if found := REQUIREMENT.match(requirement):
            needed.setdefault(found[3] or "", {})[found[1]] = found[2]
    for name, tested in needed.pop("", {}).items():
        yield _package(name, tested)
    for extra, names in sorted(needed.items()):
        if extra not in FOR_DEVELOPMENT:
            lacking = [name for name in names if not _version(name)]
            have = ", ".join(
                f"{name} {with_tested(_version(name), tested)}" for name, tested in names.items() if name not in lacking
            )
            if lacking:
                command = f"pip install '{DISTRIBUTION}[{extra}]'"
                yield Line("extras", extra, "missing", f"lacks {', '.join(lacking)}", command)
            else:
                yield Line("extras", extra, "ok", have)


def formats() -> Iterator[Line]:
    """The formats of files that are read, and of compression and places."""
    from tools.sources.registry import RECORDS, TRACES

    for name in (*(each.name for each in TRACES), *(each.name for each in RECORDS)):
        yield Line("reads", name, "ok")
    fsspec = _version("fsspec")
    yield Line("reads", "runs at a URL", "ok" if fsspec else "missing", fsspec, "" if fsspec else "pip install fsspec")


def configuration(folder: Path, *, online: bool) -> Iterator[Line]:
    """Settings in effect in a folder, what of them was not taken, the cache, the model."""
    import os

    from hermes_agent.cli.commands.cache import cache_parts, size_text
    from hermes_agent.config.settings import Settings

    try:
        chosen = Settings.load(folder, os.environ)
    except HermesError as error:
        yield Line("settings", "hermes-dx.toml", "wrong", str(error), "correct it; docs/configuration.md lists all")
        return
    files = ", ".join(map(str, chosen.files))
    yield Line("settings", "files", "ok", files or "none; every setting has its default")
    for each in chosen.notes:
        yield Line("settings", "not taken", "missing", each)
    if chosen.cache_dir is None:
        yield Line("cache", "folder", "wrong", "not used", "name a folder of your own in HERMES_DX_CACHE_DIR")
    else:
        size = size_text(sum(part.bytes for part in cache_parts(chosen.cache_dir)))
        yield Line(
            "cache", str(chosen.cache_dir), "ok", f"{size}; hermes-dx cache info lists it, cache clear removes it"
        )
    yield _model(chosen, online=online)


def _model(chosen: Settings, *, online: bool) -> Line:
    from hermes_agent.locations.places import without_credentials

    llm = chosen.llm
    if llm.model is None:
        return Line("model", "none", "ok", "answers come from templates; llm.model names one")
    key = "with a key" if chosen.api_key is not None else "without a key"
    about = f"at {without_credentials(llm.base_url)}, {key}"
    if not online:
        return Line("model", llm.model, "not_checked", about, "--online asks it")
    from hermes_agent.llm.endpoint import connect
    from hermes_agent.llm.model import Message, ModelRequest

    model = connect(chosen)
    assert model is not None
    try:
        reply = model.complete(
            ModelRequest((Message("user", "Reply with: OK"),), max_tokens=ANSWER_TOKENS), lambda: False
        )
    except HermesError as error:
        return Line("model", llm.model, "wrong", about, str(error))
    answered = "it answers" if reply.text.strip() or reply.reasoning else "it answers with nothing"
    return Line("model", llm.model, "ok", f"{about}; {answered}")


def _package(name: str, tested: str) -> Line:
    found = _version(name)
    remedy = "" if found else f"pip install {DISTRIBUTION}"
    return Line("packages", name, "ok" if found else "missing", with_tested(found, tested) if found else "", remedy)


def with_tested(installed: str, tested: str) -> str:
    """Return an installed version with the range that was tested, such as ``>=2.2,<3``, and on which side it lies."""
    bounds = {sign: _numbers(number) for sign, number in BOUND.findall(tested)}
    shown = ",".join(sorted((f"{sign}{number}" for sign, number in BOUND.findall(tested)), reverse=True))
    if not bounds:
        return installed
    have = _numbers(installed)
    exact = bounds.get("==")
    older = have < bounds.get(">=", exact or have)
    newer = have >= bounds["<"] if "<" in bounds else exact is not None and have > exact
    side = ", older than tested" if older else ", newer than tested" if newer else ""
    return f"{installed} (tested: {shown}{side})"


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of a version without zeros at the end: 3.0 is 3."""
    found = [int(each) for each in re.findall(r"\d+", text.partition("+")[0])]
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _text(lines: list[Line]) -> str:
    from hermes_agent.evidence.printable import printable

    width = max(len(line.name) for line in lines if line.section != "cache")
    texts: list[str] = []
    section = ""
    for line in lines:
        if line.section != section:
            section = line.section
            texts += ["", section] if texts else [section]
        rest = "; ".join(filter(None, (line.value, line.remedy)))
        texts.append(printable(f"  {MARKS[line.status]} {line.name:{width}}  {rest}".rstrip()))
    return "\n".join(texts)
