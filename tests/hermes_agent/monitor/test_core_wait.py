from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.watch.core_wait import CoreWait


def write(proc: Path, pid: int, delay_ns: int | str) -> None:
    folder = proc / str(pid) / "task" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schedstat").write_text(f"500 {delay_ns} 7\n", encoding="ascii")


def test_the_wait_is_what_was_added_since_the_last_look(tmp_path: Path) -> None:
    wait = CoreWait(tmp_path)
    write(tmp_path, 11, 4_000_000)
    write(tmp_path, 12, 9_000_000)
    assert wait.since_last_ms({0: 11, 1: 12}) == {0: 0.0, 1: 0.0}
    write(tmp_path, 12, 11_500_000)
    assert wait.since_last_ms({0: 11, 1: 12}) == {0: 0.0, 1: pytest.approx(2.5)}


@pytest.mark.parametrize("delay", ["x", "-"])
def test_a_kernel_that_does_not_count_it_gives_no_figure(tmp_path: Path, delay: str) -> None:
    write(tmp_path, 11, delay)
    wait = CoreWait(tmp_path)
    assert wait.since_last_ms({0: 11, 1: 13}) == {}
