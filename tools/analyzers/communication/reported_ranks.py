"""By reports in the job's output: which rank did not join a collective, called another one, or is behind?"""

from __future__ import annotations

from tools.analyzers.support.answers import say, symptom
from tools.analyzers.support.spec import check
from tools.findings import Check, Sentence
from tools.run.recorded.job_log import CollectiveReport
from tools.views.profile import Profile

SHOWN = 8
MOST_SAID = 4
AGAIN = (
    "One answer shows one moment: only where a second one a minute later has the same counts do the ranks that are"
    " behind hold the others up."
)


@check(
    *("communication.reported_ranks", "Ranks by reports in the output", "Which rank differs, by the output's reports?"),
    from_records="output",
)
def reported_ranks(profile: Profile) -> Check | None:
    """Desync reports of the watchdog, the flight recorder's analysis, and the text of NCCL RAS."""
    log = profile.run.job_log
    if log is None or not log.reports:
        return None
    kinds: dict[str, list[CollectiveReport]] = {}
    for each in log.reports:
        kinds.setdefault(each.kind, []).append(each)
    said = [*map(_not_joined, kinds.get("not_joined", [])[:MOST_SAID]), *_started(kinds)]
    said += [*_mismatch(kinds.get("mismatch", [])), *_counts(kinds)]
    return symptom(*said) if said else None


def _not_joined(each: CollectiveReport) -> Sentence:
    who = _named(each.ranks)
    if each.reached:
        text = (
            f"By PyTorch's report {who.lower()} finished collective {{n0}} and did not join {{n1}}: look there first."
        )
        return say(text, names=(f"#{each.reached}", f"#{each.number}"))
    verb = "is" if len(each.ranks) == 1 else "are"
    return say(f"{who} {verb} missing from {{n0}}: look there first.", names=(each.operation or "a collective",))


def _started(kinds: dict[str, list[CollectiveReport]]) -> list[Sentence]:
    """The others, where these called several operations."""
    started = kinds.get("started", [])
    if not kinds.get("not_joined") or len({each.operation for each in started}) < 2:
        return []
    listed = ", ".join(f"{_named(each.ranks).lower()} {{n{at}}}" for at, each in enumerate(started[:MOST_SAID]))
    names = tuple(f"{each.operation} #{each.number}" for each in started[:MOST_SAID])
    text = f"The others wait in different operations: {listed}; they may be of different groups."
    return [say(text, names=names)]


def _mismatch(found: list[CollectiveReport]) -> list[Sentence]:
    """The ranks whose sizes or types differ, those with the same values together."""
    alike: dict[tuple[str, str, str, str], list[int]] = {}
    for each in found:
        alike.setdefault((each.operation, each.number, each.wanted, each.differing), []).extend(each.ranks)
    said = []
    for (operation, number, wanted, differing), ranks in list(alike.items())[:MOST_SAID]:
        verb = "calls" if len(ranks) == 1 else "call"
        who, called = _named(tuple(sorted(set(ranks)))), operation or "a collective"
        of_number = f" (collective {number})" if number else ""
        if wanted:
            text = (
                f"{who} {verb} {{n0}}{of_number} with {{n1}} where the others have {{n2}}: the ranks do not call the"
                " same collectives in the same order, or with other tensors."
            )
            said.append(say(text, names=(called, differing, wanted)))
        else:
            said.append(
                say(
                    f"{who}: the flight recorder's analysis reports {{n1}} in {{n0}}{of_number}.",
                    names=(called, differing),
                )
            )
    return said


def _counts(kinds: dict[str, list[CollectiveReport]]) -> list[Sentence]:
    """Who is behind by NCCL RAS, which names the ranks of the smaller group only."""
    said: list[Sentence] = []
    for behind in kinds.get("behind", [])[:MOST_SAID]:
        ahead = next((each for each in kinds.get("ahead", []) if each.operation == behind.operation), None)
        if ahead is None:
            continue
        names = (behind.operation, behind.number, ahead.number)
        if behind.ranks:
            verb = "is" if behind.count == 1 else "are"
            text = f"By NCCL RAS {_named(behind.ranks).lower()} {verb} behind: {{n0}} number {{n1}}, the others {{n2}}."
        else:
            leading = f"{_named(ahead.ranks).lower()}" if ahead.ranks else f"{ahead.count} others"
            text = (
                f"By NCCL RAS {leading} launched {{n0}} up to number {{n2}}, and the {behind.count} other ranks up to"
                " {n1}: those are behind, and the report does not name them. The named ones are ahead and wait."
            )
        said += [say(text, names=names), say(AGAIN)]
    return said


def _named(ranks: tuple[int, ...]) -> str:
    if len(ranks) == 1:
        return f"Rank {ranks[0]}"
    shown = ", ".join(map(str, ranks[:SHOWN]))
    return f"Ranks {shown}" + (f" and {len(ranks) - SHOWN} more" if len(ranks) > SHOWN else "")
