"""What-if questions that name a change of the grammar of ``whatif``: a setting, a faster link, a rank."""

from __future__ import annotations

import re

from hermes_agent.evidence.ledger import quoted
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, general, paragraph
from hermes_agent.questions.reading.question import Question
from tools.findings import Fact
from tools.judgement.change_effects import Refused
from tools.judgement.step_base import StepBase, recorded_base
from tools.judgement.what_if import answered
from tools.whatif.asked_changes import changes_named_in

SETTINGS = ("bucket_cap_mb", "num_workers", "micro_batches")  # written with =; the rest is asked for in other words
BF16 = "bf16"
LINK = r"(?:links?|networks?|interconnects?|nics?|bandwidth)"
TIMES = r"(?P<{0}>\d{{1,4}}(?:\.\d{{1,3}})?) ?(?:x|times|-fold)"
FASTER_LINK = re.compile(
    rf"\b(?:{TIMES.format('before')}[ -](?:as )?(?:the )?(?:faster |fast |quicker |more )?{LINK}"
    rf"|{LINK} (?:between the ranks )?(?:were |was |is |had |with |of )?(?:at )?{TIMES.format('after')}"
    rf"|(?:twice|double) (?:as fast (?:a )?|the )?{LINK}|{LINK} (?:were |was |is )?(?:twice|double))\b",
    re.IGNORECASE,
)
AS_FAST = re.compile(r"\brank (?P<rank>\d{1,7}) (?:is |were |was )?as fast\b", re.IGNORECASE)


def named_changes(text: str) -> tuple[str, ...]:
    """The changes that a question names, in the words of the grammar; each once."""
    named = changes_named_in(text)
    found = [each.text for each in named if each.kind in SETTINGS and "=" in each.text]
    found += [each.kind for each in named if each.kind == BF16]
    found += [f"rank {int(match['rank'])} as fast as the others" for match in AS_FAST.finditer(text)]
    for match in FASTER_LINK.finditer(text):
        times = match["before"] or match["after"] or "2"
        if float(times) > 0:
            found.append(f"link {float(times):g}x")
    return tuple(dict.fromkeys(found))


def with_changes(discussion: Discussion, question: Question) -> tuple[str, str]:
    """The step with the named changes together, and else why it is not predicted; both empty where none is named.

    The refusal of a faster link or rank is a sentence to put before what its cause costs in full, that of a setting
    is an answer by itself.
    """
    changes = named_changes(question.text)
    if not changes or not discussion.profile().traced:
        return "", ""
    text = "; ".join(changes)
    found = answered(discussion.profile(), text)
    if found.prediction is None:
        return ("", _instead(changes, found.refused)) if _of_causes(changes) else (_refused(found.refused), "")
    bounds = [discussion.measure("changed_speedup", changes=text, bound=bound) for bound in ("low", "high")]
    figures = [discussion.measure(name, changes=text) for name in ("changed_step_ms", "changed_speedup")]
    said = "With {n0} a step would take {0}, {1} faster (range {2} to {3})."
    lead = discussion.say(said, *figures, *bounds, names=(text,))
    basis = f"It rests on a {' and a '.join(dict.fromkeys(each.basis for each in found.rests_on))}."
    return paragraph([lead, basis, _base(discussion, found.base)]), ""


def _base(discussion: Discussion, base: StepBase) -> str:
    """The mean step that the prediction is of, and the unprofiled one where the run has both."""
    now = discussion.say(f"The step it starts from takes {{0}} ({base.said}).", _mean(discussion, base))
    if base.metric == "series_step_ms" or discussion.profile().series is None:
        return now
    other = recorded_base(discussion.profile())
    return f"{now} {discussion.say(f'Do not compare it with {{0}} ({other.said}).', _mean(discussion, other))}"


def _mean(discussion: Discussion, base: StepBase) -> Fact:
    return discussion.measure(base.metric, statistic="mean")


def _of_causes(changes: tuple[str, ...]) -> bool:
    """Whether all changes are of what a cause may be on: a link, a rank or the precision of matrix kernels."""
    return all(each.startswith(("link ", "rank ")) or each == BF16 for each in changes)


def _refused(refused: tuple[Refused, ...]) -> str:
    rows = bullets(f"{quoted(each.asked)}: {each.why}. What it needs: {each.needs}." for each in refused)
    return blocks(["That cannot be predicted from this recording.", rows])


def _instead(changes: tuple[str, ...], refused: tuple[Refused, ...]) -> str:
    """That the change is not predicted as such, and that what follows takes its cause to be gone."""
    if BF16 in changes and refused:
        needs = " ".join(f"What it needs: {each.needs}." for each in refused if each.asked == BF16)
        return paragraph(
            [f"{quoted(BF16)} is not predicted: {'; '.join(general(each.why) for each in refused)}.", needs]
        )
    named = " with ".join(map(quoted, changes))
    reasons = "; ".join(general(each.why) for each in refused) or "what it saves is within noise"
    return (
        f"{named} as such is not predicted: {reasons}. What follows takes what slows it down to be gone altogether, "
        "which no faster link or rank exceeds."
    )
