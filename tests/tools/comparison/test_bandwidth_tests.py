"""Two outputs of nccl-tests: which message sizes changed, and what cannot be compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.comparison.compare import Comparison, compare
from tools.errors import NotComparableError
from tools.sources.load import load_run
from tools.views.profile import Profile

HEAD = """\
# Collective test starting: {kind}
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
"""
ROWS = """\
        1024           256     float     sum      -1    31.50    0.03    0.06      0    30.10    0.03    0.06      0
     1048576        262144     float     sum      -1    41.23   25.43   44.51      0    41.03   25.56   44.73      0
   268435456      67108864     float     sum      -1   2481.2  108.19  189.33      0   2479.6  108.26  189.45      0
"""
SLOWER = ROWS.replace("2481.2  108.19  189.33", "4962.4   54.09   94.67").replace("31.50", "45.00")


def compared(folder: Path, before: str, after: str) -> Comparison:
    runs = []
    for name, text in (("a", before), ("b", after)):
        path = folder / f"{name}.log"
        path.write_text(text)
        runs.append(Profile(load_run([path])))
    return compare(*runs)


def headed(rows: str, kind: str = "all_reduce_perf") -> str:
    return HEAD.format(kind=kind) + rows


def test_sizes_that_changed_are_listed_the_largest_change_first(tmp_path: Path) -> None:
    found = compared(tmp_path, headed(ROWS), headed(SLOWER))
    assert "the largest size of both, fell from" in found.headline.template
    assert [fact.value for fact in found.headline.facts] == [189.33, 94.67]
    assert found.step.before.metric == "library_time_ms"
    counted, *changed = [each.template for each in found.changes]
    assert counted.startswith("2 of the 6 rows")
    assert changed == [
        "268435456 bytes, out of place: bus bandwidth fell from {0} to {1}.",
        "1024 bytes, out of place: time rose from {0} to {1}.",
    ]


def test_two_equal_outputs_are_within_what_two_runs_differ_by(tmp_path: Path) -> None:
    found = compared(tmp_path, headed(ROWS), headed(ROWS))
    assert "they differ by less than 5 %" in found.headline.template
    assert [each.template for each in found.changes] == [
        "None of the 6 rows that both have (size and placement) changed by 5 % or more."
    ]


def test_rows_without_a_head_leave_the_collective_open(tmp_path: Path) -> None:
    found = compared(tmp_path, headed(ROWS), ROWS)
    assert "not stated by both: the collective" in found.comparability.reasons


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (headed(ROWS, "all_gather_perf"), "they test other collectives"),
        (headed(ROWS) + "# Avg bus bandwidth    : 117\n" + headed(ROWS, "all_gather_perf"), "several collectives"),
        (
            headed(ROWS.splitlines()[1] + "\n").replace("1048576        262144", "2097152        524288"),
            "no message size",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path: Path, after: str, reason: str) -> None:
    with pytest.raises(NotComparableError, match=reason):
        compared(tmp_path, headed(ROWS), after)


def test_another_factor_of_the_bus_bandwidth_is_a_reason_against(tmp_path: Path) -> None:
    other = ROWS.replace("189.33", "202.86")  # of 16 ranks
    found = compared(tmp_path, headed(ROWS), headed(other))
    assert any("bus over algorithm bandwidth is 1.75 and 1.88" in each for each in found.comparability.reasons)
