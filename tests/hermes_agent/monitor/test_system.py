from __future__ import annotations

import errno
import os
import socket
import threading
from itertools import count
from pathlib import Path

import pytest

from hermes_agent.monitor.procfs import MOST_OPEN, GroupWatch, OpenFiles, cgroup_sample
from hermes_agent.monitor.system import Sampler, host_sample

V1 = "4:memory:/job\n1:cpu,cpuacct:/job\n0::/\n"


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_throttling_is_read_from_version_2(tmp_path: Path) -> None:
    own = put(tmp_path / "own", "0::/job/one\n")
    put(tmp_path / "fs/job/one/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 4\nthrottled_usec 700\n")
    assert cgroup_sample(tmp_path / "fs", own) == {"throttled_periods": 4, "throttled_us": 700}


def test_throttling_is_read_from_version_1_in_nanoseconds(tmp_path: Path) -> None:
    own = put(tmp_path / "own", V1)
    put(tmp_path / "fs/cpu,cpuacct/job/cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_time 5000000\n")
    assert cgroup_sample(tmp_path / "fs", own) == {"throttled_periods": 3, "throttled_us": 5000}


def test_the_smallest_quota_of_the_groups_above_counts_and_their_throttling_is_added_up(tmp_path: Path) -> None:
    own = put(tmp_path / "own", "0::/job/one\n")
    put(tmp_path / "fs/job/one/cpu.stat", "nr_throttled 1\nthrottled_usec 10\n")
    put(tmp_path / "fs/job/one/cpu.max", "max 100000\n")
    put(tmp_path / "fs/job/cpu.stat", "nr_throttled 2\nthrottled_usec 300\n")
    put(tmp_path / "fs/job/cpu.max", "150000 100000\n")
    put(tmp_path / "fs/cpu.stat", "usage_usec 5\n")
    assert cgroup_sample(tmp_path / "fs", own) == {"quota_cores": 1.5, "throttled_periods": 3, "throttled_us": 310}


def test_the_quota_of_version_1_is_read(tmp_path: Path) -> None:
    own = put(tmp_path / "own", V1)
    put(tmp_path / "fs/cpu,cpuacct/job/cpu.stat", "nr_throttled 0\nthrottled_time 0\n")
    put(tmp_path / "fs/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n")
    put(tmp_path / "fs/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n")
    put(tmp_path / "fs/cpu,cpuacct/cpu.stat", "")
    put(tmp_path / "fs/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
    put(tmp_path / "fs/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    assert cgroup_sample(tmp_path / "fs", own) == {"quota_cores": 0.5, "throttled_periods": 0, "throttled_us": 0}


def test_a_group_without_a_quota_says_nothing(tmp_path: Path) -> None:
    own = put(tmp_path / "own", "0::/job\n")
    put(tmp_path / "fs/job/cpu.stat", "usage_usec 5\n")
    assert cgroup_sample(tmp_path / "fs", own) == {}


def test_a_process_that_is_moved_to_another_group_is_followed(tmp_path: Path) -> None:
    own = put(tmp_path / "own", "0::/job\n")
    put(tmp_path / "fs/job/cpu.stat", "nr_throttled 1\nthrottled_usec 10\n")
    put(tmp_path / "fs/other/cpu.stat", "nr_throttled 5\nthrottled_usec 900\n")
    watch = GroupWatch(tmp_path / "fs", own, OpenFiles().read)
    assert watch.sample() == {"throttled_periods": 1, "throttled_us": 10}
    put(own, "0::/other\n")
    assert watch.sample() == {"throttled_periods": 5, "throttled_us": 900}


def test_a_file_that_stays_open_is_read_anew_and_one_that_appears_later_is_found(tmp_path: Path) -> None:
    files, path = OpenFiles(), tmp_path / "counter"
    assert files.read(str(path)) == ""
    put(path, "1\n")
    assert files.read(str(path)) == "1\n"
    put(path, "23\n")
    assert files.read(str(path)) == "23\n"
    files.close()
    put(path, "4\n")
    assert files.read(str(path)) == "4\n"


def handles() -> list[Path]:
    return [each.resolve() for each in Path("/proc/self/fd").iterdir()]


def handle_of(path: Path) -> int:
    (handle,) = (int(each.name) for each in Path("/proc/self/fd").iterdir() if each.resolve() == path)
    return handle


def test_the_file_of_a_group_that_is_gone_is_closed_and_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, path = OpenFiles(), put(tmp_path / "counter", "1\n")
    assert files.read(str(path)) == "1\n"
    read, gone = os.pread, [OSError(errno.ENODEV, "No such device")]

    def pread(handle: int, count: int, at: int) -> bytes:
        if gone:
            raise gone.pop()
        return read(handle, count, at)

    monkeypatch.setattr(os, "pread", pread)
    assert files.read(str(path)) == "1\n"
    assert gone == []
    assert handles().count(path) == 1
    files.close()
    assert path not in handles()


@pytest.mark.parametrize("kind", ["socket", "file"])
def test_a_number_that_has_become_the_trainings_is_neither_read_nor_closed(tmp_path: Path, kind: str) -> None:
    files, path = OpenFiles(), put(tmp_path / "counter", "1\n")
    other = put(tmp_path / "other", "77\n")
    theirs = socket.socket().detach() if kind == "socket" else os.open(other, os.O_RDONLY)
    taken = []
    for _ in range(2):
        assert files.read(str(path)) == "1\n"
        taken.append(handle_of(path))
        os.dup2(theirs, taken[-1])  # as when all was closed, and the training opened something since
    files.close()
    for each in (*taken, theirs):
        assert os.path.samestat(os.fstat(each), os.fstat(theirs))
        os.close(each)


def test_only_so_many_files_stay_open(tmp_path: Path) -> None:
    files = OpenFiles()
    texts = [f"{number}\n" for number in range(MOST_OPEN + 8)]
    paths = [put(tmp_path / f"file{text.strip()}", text) for text in texts]
    for _ in range(2):
        assert [files.read(str(path)) for path in paths] == texts
    assert len(set(paths) & set(handles())) == MOST_OPEN
    files.close()
    assert not set(paths) & set(handles())


def test_pressure_and_load_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    put(tmp_path / "loadavg", "4.32 3.0 2.0 2/300 12345\n")
    put(tmp_path / "stat", "cpu  10 0 20 60 5 0 1 4 0 0\ncpu0 1 1 1 1\n")
    put(tmp_path / "pressure/io", "some avg10=0.00 avg60=0.00 total=77\nfull avg10=0.00 avg60=0.00 total=11\n")
    assert host_sample(str(tmp_path)) == {
        "load_1min": 4.32,
        "runnable": 2,
        "cpu_total_ticks": 100,
        "cpu_idle_ticks": 65,
        "cpu_steal_ticks": 4,
        "pressure_io_some_us": 77,
        "pressure_io_full_us": 11,
    }


def test_a_machine_that_tells_nothing_gives_an_empty_sample(tmp_path: Path) -> None:
    assert host_sample(str(tmp_path)) == {}
    assert cgroup_sample(tmp_path, tmp_path / "none") == {}


class DriverError(Exception):
    """As a vendor's library raises it: of no kind that is known here."""


def test_a_source_that_goes_on_failing_is_named_and_left_out() -> None:
    def broken() -> dict[str, int]:
        raise DriverError("not supported")

    sampler = Sampler(False, threading.get_native_id())
    sampler.add("broken", broken)
    for _ in range(3):
        sample = sampler.sample()
        assert sample["broken_failed"] == "DriverError: not supported"
        assert "resident_bytes" in sample
    assert "broken_failed" not in sampler.sample()
    sampler.close()


def test_a_source_that_fails_now_and_then_is_kept() -> None:
    calls = count()

    def shaky() -> dict[str, int]:
        if next(calls) % 2 == 0:
            raise RuntimeError("busy")
        return {"shaky": 1}

    sampler = Sampler(False, threading.get_native_id())
    sampler.add("shaky", shaky)
    assert sum("shaky" in sampler.sample() for _ in range(10)) == 5
    sampler.close()
