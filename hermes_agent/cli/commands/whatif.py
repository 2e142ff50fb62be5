"""Predict the step with settings of a run changed: bucket_cap_mb=50, num_workers=8, rank 3 as fast as the others."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import RUN_HELP, add_selection_arguments, profile_of, request_of, settings
from hermes_agent.cli.gantt import add_gantt_arguments, check_gantt_files, write_gantt
from hermes_agent.cli.terminal import print_json
from hermes_agent.locations.places import place
from tools.errors import ExitCode, UsageError
from tools.whatif.asked_changes import asked_changes, grammar_schema, grammar_text
from tools.whatif.claim import COVERS_PCT

if TYPE_CHECKING:
    from tools.judgement.what_if import WhatIf
    from tools.views.profile import Profile
    from tools.whatif.predict import Prediction
    from tools.whatif.timeline import Timeline

SCHEMA = "hermes-dx/whatif/1"
LONGEST_LINE = 1000  # characters
TITLES = {"replay": "replay", "planner": "simulation", "formula": "formula"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``whatif``."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"changes, made together:\n{grammar_text()}"
    parser.add_argument("run_path", nargs="?", metavar="RUN", type=place, help=RUN_HELP)
    parser.add_argument("changes", nargs="*", metavar="CHANGE", help="what to change; see the list below")
    add_selection_arguments(parser, baseline=False)
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of a change")
    add_gantt_arguments(parser)
    parser.add_argument("--strict", action="store_true", help="exit with 4 when a change cannot be predicted")


def run(args: argparse.Namespace) -> int:
    """Print the step now and the predicted step, or what is missing; UsageError where a change is none."""
    if args.schema:
        print_json(grammar_schema())
        return ExitCode.OK
    if args.run_path is None:
        raise UsageError('name a run and a change, for example hermes-dx whatif RUN "num_workers=8"')
    asked = asked_changes(args.changes)
    from tools.judgement.what_if import what_if

    check_gantt_files(args)
    args.run_paths = [args.run_path]
    profile = profile_of(request_of(args, settings()))
    found = what_if(profile, asked)
    write_gantt(args, lambda: _timeline(profile, found))
    if args.json:
        print_json(as_record(found))
    else:
        print(answer_text(found))
    return ExitCode.INCONCLUSIVE if args.strict and found.prediction is None else ExitCode.OK


def _timeline(profile: Profile, found: WhatIf) -> Timeline:
    from tools.whatif.predict import replay_bars
    from tools.whatif.timeline import Timeline

    if found.prediction is None or not found.change:
        raise UsageError(
            "nothing is replayed for this answer, so there is nothing to draw; for gradient buckets "
            "hermes-dx plan gradient-buckets --from RUN --svg FILE draws the transfers"
        )
    changes = " and ".join(found.changes)
    return Timeline(f"Replayed steps now and with {changes}", tuple(replay_bars(profile, found.change)))


def as_record(found: WhatIf) -> dict[str, object]:
    """The answer as JSON; ``predicted`` is null where a change is ``refused``."""
    return {
        "schema": SCHEMA,
        "changes": list(found.changes),
        "step_ms": found.step_ms,
        "steps": found.base.steps,
        "step_of": found.base.said,
        "same_samples": found.same_samples,
        "predicted": None if found.prediction is None else _predicted(found.prediction),
        "rests_on": [asdict(each) for each in found.rests_on],
        "refused": [asdict(each) for each in found.refused],
        "notes": list(found.notes),
    }


def _predicted(prediction: Prediction) -> dict[str, float | bool | None]:
    """With ``at_most`` the speedup is the most that the changes can bring, and there is no range."""
    ranged = not prediction.at_most
    return {
        "step_ms": prediction.step_ms_after,
        "low_ms": prediction.low_ms if ranged else None,
        "high_ms": prediction.high_ms if ranged else None,
        "speedup": prediction.speedup,
        "speedup_low": prediction.speedup_low if ranged else None,
        "speedup_high": prediction.speedup_high if ranged else None,
        "at_most": prediction.at_most,
        "covers_pct": COVERS_PCT if ranged else None,
    }


def _gain(expected: Prediction) -> str:
    """The step and its speedup with their ranges, or as the least and the most that they can be."""
    after = f"{expected.step_ms_after:.4g} ms"
    if expected.at_most:
        return f"at least {after}, speedup at most {expected.speedup:.2f}x"
    speedup = f"{expected.speedup:.2f}x ({expected.speedup_low:.2f}x to {expected.speedup_high:.2f}x)"
    return f"{after} ({expected.low_ms:.4g} to {expected.high_ms:.4g} ms), speedup {speedup}"


def answer_text(found: WhatIf) -> str:
    """The answer for a terminal."""
    from hermes_agent.evidence.printable import printable

    lines = [f"Step now: {found.step_ms:.4g} ms ({found.base.said})"]
    if (expected := found.prediction) is not None:
        what = "time for as many samples as a step has now" if found.same_samples else "step"
        lines.append(f"Predicted {what}: {_gain(expected)}")
    else:
        lines.append("Predicted step: not assessable from this run")
    lines += [f"  {each.asked}: {each.why}; what it needs: {each.needs}" for each in found.refused]
    lines += [f"  {each.change}: by {TITLES[each.basis]}: {each.text}" for each in found.rests_on]
    lines += found.notes
    if found.prediction is not None and not found.prediction.at_most:
        lines.append(f"Ranges are {COVERS_PCT:.0f} % prediction intervals.")
    return "\n".join(printable(line, LONGEST_LINE) for line in lines)
