"""The questions to the agent, by profile: ``python -m evals.agent [--profile P ...] [--only TEXT] [--write]``.

Profiles: template, competent, obeying, liar, listing, parrot, refusing; ``live`` asks the configured model,
``record:FOLDER`` the same with its exchanges kept, ``replay:FOLDER`` plays them, ``recorded`` plays the replies of the
small real model that are kept here. ``--real`` asks the questions of its subset. ``--write`` writes
``evals/agent/RESULTS.md``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from evals.agent.questions import questions
from evals.agent.real_model import RECORDED, REPLIES, SUBSET
from evals.agent.report import report
from evals.agent.suite import PROFILES, ModelFactory, run_suite
from hermes_agent.config.settings import Settings
from hermes_agent.llm.endpoint import connect
from tools.errors import HermesError, UsageError

RESULTS = Path(__file__).with_name("RESULTS.md")


def factory(profile: str) -> ModelFactory:
    """The models of a profile; UsageError for one that does not exist."""
    kind, _, folder = profile.partition(":")
    if profile in PROFILES:
        return ModelFactory(profile)
    if profile == REPLIES:
        return ModelFactory(profile, RECORDED, in_order=True)
    if kind == "replay" and Path(folder).is_dir():
        return ModelFactory(profile, Path(folder), settings=Settings.load(Path.cwd(), os.environ))
    if kind not in ("live", "record") or (kind == "record") != bool(folder):
        names = ", ".join((*PROFILES, REPLIES))
        raise UsageError(f"there is no profile {profile!r}; use {names}, live, record:FOLDER or replay:FOLDER")
    settings = Settings.load(Path.cwd(), os.environ)
    model = connect(settings)
    if model is None:
        raise UsageError("no model is configured to ask; set HERMES_DX_LLM_MODEL")
    return ModelFactory(profile, Path(folder) if folder else None, model, settings)


def main(arguments: Sequence[str]) -> int:
    """Run the suite and print its table; 1 where nothing ran or something false was shown."""
    parser = argparse.ArgumentParser(prog="python -m evals.agent", description=__doc__)
    parser.add_argument("--profile", action="append", help="may be given several times; all that need no network")
    parser.add_argument("--real", action="store_true", help="the subset that a small real model is asked")
    parser.add_argument("--only", default="", help="questions whose id or tag has this text")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--lies", action="store_true", help="print everything false that was shown")
    given = parser.parse_args(arguments)
    chosen = [each for each in questions() if given.only in f"{each.id} {each.asked.tag}"]
    if given.real:
        chosen = [each for each in chosen if each.id in SUBSET]
    profiles = given.profile or [*PROFILES, REPLIES]
    try:
        made = {profile: factory(profile) for profile in profiles}
        results, skipped = run_suite(chosen, profiles, made.__getitem__)
    except HermesError as error:
        print(f"evals.agent: {error}", file=sys.stderr)
        return error.exit_code or 1
    text = report(results, skipped)
    print(text)
    if given.write:
        RESULTS.write_text(text + "\n", encoding="utf-8")
    false = [each for each in results if each.shown_false]
    if given.lies:
        for each in false:
            print(f"{each.question.id} {each.profile}: {'; '.join(each.shown_false)}")
    return 1 if false else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
