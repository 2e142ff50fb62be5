"""Made-up runs with known answers, diagnosed without files, for tests of what is said about them."""

from __future__ import annotations

import re

from case_library.retrieval.recall import CaseIndex
from hermes_agent.evidence.citations import cited_ids, written
from hermes_agent.model.request import Request
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.material import Material
from hermes_agent.questions.reading.question import lexicon
from hermes_agent.report.compose import Findings, compose
from tests.collective_runs import late_run
from tests.synthetic import RankBuilder, profile_of
from tests.tools.analyzers.computation_runs import SGEMM
from tools.analyzers.registry import all_checks
from tools.judgement.ranking import ranking
from tools.views.profile import Profile

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
STEP_US = 100_000.0
WAIT_US = 40_000.0
SPIKE = 7
SPIKE_US = 60_000.0
LATE_US = 3_000.0
COPY_US = 40_000.0
SLOW_CALLS = (4, 7)

EXAMPLES = {words.example: name for name, words in lexicon().intents.items() if words.example}


def unsupported(text: str, discussion: Discussion) -> list[str]:
    """Ids that do not exist, and cited figures that are not written as their evidence is."""
    known = {*discussion.evidence, *discussion.advice, *(case.id for case in discussion.cases)}
    wrong = [name for name in cited_ids(text) if name not in known]
    for match in re.finditer(r"\[(E\d+)\]", text):
        record = discussion.evidence.get(match[1])
        if record is not None and not text[: match.start()].rstrip().endswith(written(record.value, record.unit)):
            wrong.append(text[max(0, match.start() - 40) : match.end()])
    return wrong


class MadeUp(Material):
    """Material without files: a profile, and the bundled cases when a test asks for them."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(Request(()))
        self._profile = profile
        self._index: CaseIndex | None = None

    def profile(self) -> Profile:
        return self._profile

    def baseline(self) -> Profile | None:
        return None

    def cases(self) -> CaseIndex:
        if self._index is None:
            self._index = CaseIndex.open()
        return self._index


def discuss(profile: Profile) -> Discussion:
    """The discussion of a run diagnosed by all analyzers; no cases are recalled for it."""
    findings = Findings(profile=profile, checks=all_checks(profile), ranking=ranking(profile), recalls={})
    return Discussion(compose(findings), MadeUp(profile))


def single_precision() -> Discussion:
    """One rank that multiplies matrices on the ordinary units of a device with tensor cores."""
    rank = RankBuilder(0)
    for step in range(6):
        start_us = step * 1_000.0
        rank.kernel(SGEMM, start_us + 20, 900, call_us=start_us + 10)
        rank.runtime("cudaDeviceSynchronize", start_us + 30, 890)
        rank.step(step, start_us, start_us + 1_000)
    return discuss(profile_of(rank))


def _rank(wait_us: float = 0.0, spike: int | None = None) -> RankBuilder:
    """Ten steps of 100 ms: ``wait_us`` in the loader, the rest one kernel; one step may compute 60 ms more."""
    rank = RankBuilder(0)
    start_us = 0.0
    for step in range(10):
        end_us = start_us + STEP_US + (SPIKE_US if step == spike else 0.0)
        if wait_us:
            rank.annotation(LOADER, start_us, wait_us)
        begin_us = start_us + wait_us + 100
        rank.operator("aten::mm", begin_us, 50)
        rank.kernel("sgemm", begin_us + 50, end_us - begin_us - 60, call_us=begin_us + 10)
        rank.step(step, start_us, end_us)
        start_us = end_us
    return rank


def slow_loader() -> Discussion:
    """One rank that waits 40 ms of each 100 ms step for its data loader."""
    return discuss(profile_of(_rank(WAIT_US)))


def busy() -> Discussion:
    """One rank that computes all the time."""
    return discuss(profile_of(_rank()))


def spiky() -> Discussion:
    """One rank whose step 7 takes 60 ms more, all of it computation."""
    return discuss(profile_of(_rank(spike=SPIKE)))


def slow_call() -> Discussion:
    """One rank whose steps 4 and 7 take 40 ms more, in one `cudaMemcpyAsync` of the host each, with the device idle."""
    rank = RankBuilder(0)
    start_us = 0.0
    for step in range(10):
        extra_us = COPY_US if step in SLOW_CALLS else 0.0
        rank.runtime("cudaMemcpyAsync", start_us + 10, 100 + extra_us)
        begin_us = start_us + 200 + extra_us
        rank.kernel("sgemm", begin_us, 90_000, call_us=begin_us - 50)
        rank.kernel("relu", begin_us + 90_000, 5_000, call_us=begin_us - 30)
        rank.step(step, start_us, begin_us + 95_100)
        start_us = begin_us + 95_100
    return discuss(profile_of(rank))


def loader_and_operators() -> Discussion:
    """Steps of 10 ms: 4 ms in the loader, then 100 kernels of 10 us that the host launches every 55 us."""
    rank = RankBuilder(0)
    for step in range(8):
        start_us = step * 10_000.0
        rank.annotation(LOADER, start_us, 4_000)
        for call in range(100):
            at_us = start_us + 4_050 + 55.0 * call
            rank.operator("aten::add", at_us, 50)
            rank.kernel("add_kernel", at_us + 30, 10, call_us=at_us + 20)
        rank.step(step, start_us, start_us + 10_000)
    return discuss(profile_of(rank))


def late_rank() -> Discussion:
    """Four ranks that meet in an all-reduce each step; rank 2 waits 3 ms longer than the others for its loader."""
    return discuss(late_run(lambda rank, _: LATE_US if rank == 2 else 0.0, steps=8, how="data"))
