"""The table of ``torch.cuda.memory_summary()`` in a job's output, and what it says of memory that ran out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.analyzers.registry import check_of
from tools.judgement.without_steps import MEMORY, why_without_steps
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.views.profile import Profile

ERROR = (
    "| OOM: Ran out of memory with exception: CUDA out of memory. Tried to allocate 62.00 MiB (GPU 0; 15.90 GiB total"
    " capacity; 14.59 GiB already allocated; 9.88 MiB free; 15.19 GiB reserved in total by PyTorch)\n"
)


def summary(ooms: int, retries: int, allocated: str, reserved: str) -> str:
    return (
        "|                  PyTorch CUDA memory summary, device ID 0                 |\n"
        "|---------------------------------------------------------------------------|\n"
        f"|            CUDA OOMs: {ooms}           |        cudaMalloc retries: {retries}        |\n"
        "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n"
        f"| Allocated memory      | {allocated} |   15377 MB |     995 GB |     980 GB |\n"
        "|       from large pool |   14932 MB |   15374 MB |     995 GB |     980 GB |\n"
        f"| GPU reserved memory   | {reserved} |   15560 MB |   51434 MB |   35882 MB |\n"
        "| Non-releasable memory |  631465 KB |    1511 MB |  419075 MB |  418459 MB |\n"
    )


def profile_of(tmp_path: Path, text: str) -> Profile:
    (tmp_path / "job.log").write_text(text)
    return Profile(load_run([tmp_path / "job.log"]))


def test_counts_and_amounts_of_the_last_summary_are_read(tmp_path: Path) -> None:
    """14,336 of 15,360 MB: 14 and 15 GiB, 93.3 %; the summary of fewer retries is an earlier one."""
    text = summary(1, 2, "  1024 MB", "  2048 MB") + summary(58, 66, "  14336 MB", "  15360 MB")
    profile = profile_of(tmp_path, text)
    assert [measure(profile, "allocator_failures", what=each).value for each in ("ooms", "retries")] == [58.0, 66.0]
    assert measure(profile, "allocator_memory_gib", what="allocated").value == 14.0
    assert measure(profile, "allocator_memory_gib", what="peak_reserved").value == pytest.approx(15560 / 1024)
    assert measure(profile, "allocator_memory_gib", what="unreleasable").value == pytest.approx(631465 / 1024**2)
    assert measure(profile, "allocated_of_reserved_pct").value == pytest.approx(100 * 14 / 15)


def test_of_several_processes_and_files_the_one_with_the_most_failures_counts(tmp_path: Path) -> None:
    lines = [summary(*counts, "  1024 MB", "  2048 MB") for counts in ((0, 0), (1, 1), (0, 3))]
    (tmp_path / "rank0.log").write_text(lines[0])
    (tmp_path / "rank1.log").write_text(lines[1] + lines[2])
    profile = Profile(load_run([tmp_path]))
    assert [measure(profile, "allocator_failures", what=each).value for each in ("ooms", "retries")] == [1.0, 1.0]


def test_retries_are_a_finding_without_a_price(tmp_path: Path) -> None:
    check = check_of(profile_of(tmp_path, ERROR + summary(58, 66, "  14935 MB", "  15552 MB")), "memory.output_flushes")
    assert check is not None
    (finding,) = check.findings
    assert (finding.cause, finding.mechanism, finding.impact_ms) == ("memory_pressure", "allocator_retry", 0.0)
    assert [fact.value for fact in finding.claim.facts] == [66.0]


def test_full_memory_is_distinguished_from_fragmented_memory(tmp_path: Path) -> None:
    """14.59 of 15.19 GiB are 96 %; 7 of 15 GiB are 47 %."""
    full = profile_of(tmp_path, ERROR)
    said = check_of(full, "step_time.output")
    assert said is not None
    shares = [fact.value for each in said.support for fact in each.facts if fact.unit == "%"]
    assert shares == [pytest.approx(100 * 14.59 / 15.19)]
    assert measure(full, "exhausted_memory_gib", what="unused").value == pytest.approx(0.60)
    assert why_without_steps(full)[1] == MEMORY
    torn = check_of(profile_of(tmp_path, summary(1, 2, "  7168 MB", "  15360 MB")), "step_time.output")
    assert torn is not None
    assert not any("not fragmented" in each.template for each in torn.support)


def test_a_summary_without_retries_is_no_finding(tmp_path: Path) -> None:
    assert check_of(profile_of(tmp_path, summary(0, 0, "  1024 MB", "  2048 MB")), "memory.output_flushes") is None
