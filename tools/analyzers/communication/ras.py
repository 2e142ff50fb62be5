"""By NCCL RAS: do all ranks answer, does a communicator report an error, and is a rank behind?"""

from __future__ import annotations

from collections.abc import Sequence

from tools.analyzers.support.answers import cannot_answer, clean, say
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Sentence
from tools.metrics.recorded.collective_lines import ras_counts
from tools.metrics.registry import measure
from tools.run.recorded.collective_records import RasRank, RasRecords
from tools.views.communication.collective_counts import RankCounts, differing, failed, job_ranks, lost, moving
from tools.views.profile import Profile

NO_COST = "a step that does not end has no length"
COUNTED = 0.7  # two answers: the ranks stood still between them, for as long as they are apart
SHOWN = 8
TWICE = "two answers of `ncclras -f json -v`, a minute apart, in a file each"


@check(
    *("communication.ras", "Ranks by NCCL RAS", "Do all ranks answer NCCL, and is one behind the others?"),
    from_records="collectives",
    may_find=("straggler",),
)
def ras(profile: Profile) -> Check | None:
    """Ranks that do not answer or report an error; ranks with fewer collectives while nothing moves."""
    if profile.run.collectives is None or profile.run.collectives.ras is None:
        return None
    records = profile.run.collectives.ras
    said = [*_missing(profile, records), *_errors(records), *_of_unknown_ranks(ras_counts(profile))]
    behind = [each for each in ras_counts(profile) if each.known]
    if behind:
        ranks = tuple(each.rank for each in behind)
        finding = Finding(
            cause="straggler",
            claim=say(
                f"{_named(ranks)} {'is' if len(ranks) == 1 else 'are'} behind in collectives that no rank has added to "
                "between two answers of NCCL RAS: rank {n0} by {0} ({n1}).",
                measure(profile, "ras_calls_behind", rank=behind[0].rank),
                names=(str(behind[0].rank), behind[0].kind),
            ),
            confidence=COUNTED,
            ranks=ranks,
            impact_ms=0.0,
            impact_method=NO_COST,
            details=tuple(
                say(f"Rank {rank} is {{0}} behind.", measure(profile, "ras_calls_behind", rank=rank)) for rank in ranks
            ),
            disproved_by="`py-spy dump --pid PID` on this rank shows it inside the collective that the others wait in",
            signals=("one rank has called fewer collectives while nothing moves",),
        )
        return Check("", "found", findings=(finding,), support=tuple(said))
    if said:
        return Check("", "found", support=tuple(said))
    if records.samples < 2:
        reason = "one answer of NCCL RAS shows that ranks differ in their collectives, as those of any running job do"
        return cannot_answer(reason if differing(records) else "one answer of NCCL RAS does not show movement", TWICE)
    everyone = "All ranks answer NCCL RAS without an error"
    moved = "their collectives went on between two answers" if moving(records) else "no rank is behind another"
    return clean(say(f"{everyone}, and {moved}."))


def _of_unknown_ranks(counts: Sequence[RankCounts]) -> list[Sentence]:
    """The processes that are behind where no communicator holds all, so that their ranks in the job are not known."""
    unknown = [each for each in counts if not each.known]
    text = (
        "Rank {n0} of communicator {n1} on {n2} is behind in collectives ({n3}) that no rank has added to between two "
        "answers of NCCL RAS. Its rank in the job is not known: no communicator holds all processes."
    )
    return [say(text, names=(str(each.rank), each.communicator, each.host, each.kind)) for each in unknown[:SHOWN]]


def _missing(profile: Profile, records: RasRecords) -> list[Sentence]:
    """The ranks that do not answer, in the last answer."""
    missing = lost(records)
    numbers = job_ranks(records)
    said = []
    for dead in (True, False):
        ranks = sorted({_number(each, numbers) for each in missing if each.dead is dead})
        if ranks:
            hosts = sorted({each.host for each in missing if each.dead is dead})
            state = "considered dead" if dead else "missing: they do not answer"
            text = f"{_named(tuple(ranks))}, on {{n0}}: {state}, of {{0}} that NCCL RAS lacks."
            said.append(say(text, measure(profile, "ras_missing_ranks"), names=(", ".join(hosts[:SHOWN]),)))
    return said


def _errors(records: RasRecords) -> list[Sentence]:
    """The ranks whose communicator reports an error of NCCL."""
    numbers = job_ranks(records)
    reporting = [each for each in failed(records) if not each.dead]
    if not reporting:
        return []
    ranks = tuple(sorted({_number(each, numbers) for each in reporting}))
    codes = ", ".join(sorted({str(each.error) for each in reporting}))
    return [say(f"{_named(ranks)}: a communicator reports an error of NCCL (ncclResult_t {{n0}}).", names=(codes,))]


def _number(rank: RasRank, numbers: dict[tuple[str, int], int]) -> int:
    return numbers.get((rank.host, rank.pid), rank.rank)


def _named(ranks: tuple[int, ...]) -> str:
    if len(ranks) == 1:
        return f"Rank {ranks[0]}"
    shown = ", ".join(map(str, ranks[:SHOWN]))
    return f"Ranks {shown}" + (f" and {len(ranks) - SHOWN} more" if len(ranks) > SHOWN else "")
