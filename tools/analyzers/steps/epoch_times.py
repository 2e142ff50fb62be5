"""How long do whole epochs take by the lines of a job's output that state it?"""

from __future__ import annotations

from collections.abc import Sequence

from tools.analyzers.support.answers import clean, say
from tools.analyzers.support.spec import check
from tools.findings import Check, Sentence
from tools.metrics.recorded.epoch_times import part_by_rank, stated_epochs
from tools.metrics.registry import measure
from tools.run.recorded.job_log import EpochTime
from tools.views.profile import Profile

FEW = 2  # epochs: of so few each one is stated
PARTS = 4  # largest parts that are listed
APART = 1.5  # times the median of ranks: a part that takes so long on one rank is named


@check(
    *("step_time.epochs", "Stated epochs", "How long do epochs take by the lines that state it?"),
    family="parallel",
    from_records="output",
)
def epochs(profile: Profile) -> Check | None:
    """The first epoch and the others, what a bar counts in one, and the parts of an epoch by rank."""
    found = stated_epochs(profile)
    if not found or profile.traced:
        return None
    said = [_by_bar(profile, found[0])] if found[0].items else []
    said += [_usual(profile, found)] if len(found) > 1 or not said else []
    return clean(*said, *_parts(profile, found))


def _usual(profile: Profile, found: Sequence[EpochTime]) -> Sentence:
    ranks = {each.rank for each in found if each.rank is not None}
    if len(found) == 1:
        return say("A line states {0} for an epoch.", measure(profile, "epoch_ms"))
    if len(ranks) > 1 or len(found) <= FEW:
        whose = f"{len(found)} lines of {len(ranks)} parts of the job state" if len(ranks) > 1 else "Two lines state"
        least, most = (measure(profile, "epoch_ms", statistic=each) for each in ("min", "max"))
        return say(f"{whose} {{0}} to {{1}} for an epoch.", least, most)
    first = measure(profile, "epoch_ms", statistic="first")
    later = [measure(profile, "epoch_ms", statistic=each, later=1) for each in ("median", "min", "max")]
    text = "lines state the time of an epoch: the first {0}, the others {1} in the median ({2} to {3})."
    return say(f"{len(found)} {text}", first, *later)


def _by_bar(profile: Profile, first: EpochTime) -> Sentence:
    """What a bar of Keras without the time of a step shows of its epoch."""
    whole, each = measure(profile, "epoch_ms", statistic="first"), measure(profile, "epoch_item_ms")
    text = "By the time left on its bar an epoch takes {0}" if first.expected else "An epoch takes {0} by its bar"
    counts = f"which counts {first.items} items; whether these are steps or samples is not stated, {{1}} for each"
    return say(f"{text}, {counts}.", whole, each)


def _parts(profile: Profile, found: Sequence[EpochTime]) -> list[Sentence]:
    """The largest parts of an epoch, and the ranks on which one takes far longer than on most."""
    names = list(dict.fromkeys(name for each in found for name, _ in each.parts))
    if not names:
        return []
    medians = {name: measure(profile, "epoch_part_ms", name=name) for name in names}
    largest = sorted(names, key=lambda name: -medians[name].value)[:PARTS]
    listed = ", ".join(f"{{{at}}} in {{n{at}}}" for at in range(len(largest)))
    text = f"Of it the parts of the job spend {listed} in the median."
    said = [say(text, *(medians[name] for name in largest), names=tuple(largest))]
    for name in largest:
        by_rank = part_by_rank(found, name)
        if len(by_rank) > FEW and by_rank.max() >= APART * by_rank.median():
            most = measure(profile, "epoch_part_ms", name=name, statistic="max")
            text = f"Part {int(str(by_rank.idxmax()))} spends {{0}} in {{n0}}, the median part {{1}}."
            said.append(say(text, most, medians[name], names=(name,)))
    return said
