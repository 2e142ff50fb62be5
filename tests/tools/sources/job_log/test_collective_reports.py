"""Reports of ranks in a job's output: who did not join, who called with another size, who is behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.analyzers.registry import check_of
from tools.findings import Sentence
from tools.judgement.ranking import ranking
from tools.sources.load import load_run
from tools.views.profile import Profile

DESYNC = """\
         - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:
             [3] finished collective #9, but didn't join collective #10 (count from 1)
           #20 started ranks:
             [0, 1] started ALLREDUCE
           #21 started ranks:
             [2] started BROADCAST
"""
SIZES = """\
Collective 5 at entry 4 errors
collective: nccl:all_gather
error msg: Culprit rank 2; Error type: SIZE_OR_SYNTAX_MISMATCH, Expected input sizes: '[[8]]' does not match found \
input sizes: '[[16]]', Culprit rank 6; Error type: SIZE_OR_SYNTAX_MISMATCH, Expected input sizes: '[[8]]' does not \
match found input sizes: '[[16]]'
"""
RAS = """\
#0-0 (0123456789abcdef) MISMATCH
  Communicator ranks have different AllReduce operation counts
  {}
"""
AHEAD = """6 ranks have launched up to operation 40
  2 ranks have launched up to operation 41
  Rank 1 -- GPU 1 managed by process 12 on node 10.0.0.1
  Rank 3 -- GPU 3 managed by process 14 on node 10.0.0.1"""
BEHIND = """7 ranks have launched up to operation 40
  1 ranks have launched up to operation 39
  Rank 5 -- GPU 5 managed by process 16 on node 10.0.0.1"""


def said(tmp_path: Path, text: str) -> tuple[Sentence, ...]:
    (tmp_path / "job.out").write_text(text)
    check = check_of(Profile(load_run([tmp_path])), "communication.reported_ranks")
    assert check is not None
    return check.support


def test_the_rank_that_did_not_join_is_named_and_the_others_wait(tmp_path: Path) -> None:
    lagging, others = said(tmp_path, DESYNC)
    assert lagging.template.startswith("By PyTorch's report rank 3 finished")
    assert lagging.names == ("#9", "#10")
    assert others.names == ("ALLREDUCE #20", "BROADCAST #21")
    assert "ranks 0, 1" in others.template


def test_ranks_with_another_size_are_named_together(tmp_path: Path) -> None:
    (sizes,) = said(tmp_path, SIZES)
    assert sizes.template.startswith("Ranks 2, 6 call")
    assert sizes.names == ("all_gather", "[[16]]", "[[8]]")
    assert "(collective 5)" in sizes.template
    assert "time-out" not in sizes.template
    result = ranking(Profile(load_run([tmp_path])))
    assert "stays behind" not in result.why
    assert result.needs.startswith("the frames of these collectives")


@pytest.mark.parametrize(
    ("counts", "begins", "holds"),
    [
        (AHEAD, "By NCCL RAS ranks 1, 3 launched", "the 6 other ranks up to {n1}: those are behind"),
        (BEHIND, "By NCCL RAS rank 5 is behind", "the others {n2}"),
    ],
    ids=["the named ranks are ahead", "the named rank is behind"],
)
def test_ras_names_the_smaller_group_whichever_side_it_is_on(
    tmp_path: Path, counts: str, begins: str, holds: str
) -> None:
    first, again = said(tmp_path, RAS.format(counts))
    assert first.template.startswith(begins)
    assert holds in first.template
    assert first.names[0] == "AllReduce"
    assert "One answer shows one moment" in again.template
    assert "the ranks that are behind hold the others up" in again.template
