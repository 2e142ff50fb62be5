from __future__ import annotations

import subprocess
import sys
import threading
import time
from multiprocessing import get_context, resource_tracker
from pathlib import Path

from hermes_agent.monitor.procfs import ChildWatch, GrowingSum, ThreadWatch, process_cpu_us


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_sum_keeps_what_ended_ones_had() -> None:
    total = GrowingSum()
    assert total.update({1: 10, 2: 5}, {1, 2}) == 15
    assert total.update({1: 12}, {1}) == 17
    assert total.update({1: 3}, {1}) == 20  # the number was given to another one
    assert total.update({}, {1}) == 20


def test_a_busy_side_thread_is_told_from_the_training_thread_also_after_its_end() -> None:
    watch = ThreadWatch(threading.get_native_id())
    before = watch.sample()
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        burn(0.05)
        go.set()
        done.wait(5)

    side = threading.Thread(target=work)
    side.start()
    go.wait(5)
    during = watch.sample()
    done.set()
    side.join()
    after = watch.sample()
    assert during["python_threads"] == before["python_threads"] + 1
    assert during["python_threads_cpu_us"] - before["python_threads_cpu_us"] >= 50_000
    assert after["python_threads_cpu_us"] >= during["python_threads_cpu_us"]
    assert during["training_cpu_us"] - before["training_cpu_us"] < 50_000


def test_the_monitors_own_threads_are_not_counted() -> None:
    watch = ThreadWatch(threading.get_native_id())
    before = watch.sample()["python_threads"]
    done = threading.Event()
    own = threading.Thread(target=done.wait, args=(5,), name="hermes-dx-monitor")
    own.start()
    assert watch.sample()["python_threads"] == before
    done.set()
    own.join()


def test_waiting_for_a_core_is_added_up_over_the_threads(tmp_path: Path) -> None:
    for tid, delay_ns in ((11, 3_000_000), (12, 4_000_000)):
        (tmp_path / f"task/{tid}").mkdir(parents=True)
        (tmp_path / f"task/{tid}/schedstat").write_text(f"1 {delay_ns} 3\n", encoding="utf-8")
    sample = ThreadWatch(11, tmp_path).sample()
    assert sample["training_run_delay_us"] == 3000
    assert sample["run_delay_us"] == 7000


def test_threads_that_had_waited_before_they_were_first_looked_at_do_not_raise_the_sum(tmp_path: Path) -> None:
    for tid in range(1, 201):
        (tmp_path / f"task/{tid}").mkdir(parents=True)
        (tmp_path / f"task/{tid}/schedstat").write_text("1 30000000000 3\n", encoding="utf-8")
    watch = ThreadWatch(1, tmp_path)
    sums = [watch.sample()["run_delay_us"] for _ in range(8)]
    assert sums == [sums[0]] * 8
    (tmp_path / "task/150/schedstat").write_text("1 30002000000 3\n", encoding="utf-8")
    (tmp_path / "task/201").mkdir()
    (tmp_path / "task/201/schedstat").write_text("1 5000000 3\n", encoding="utf-8")
    assert [watch.sample()["run_delay_us"] for _ in range(4)][-1] == sums[0] + 2000 + 5000


def test_a_kernel_without_these_files_leaves_the_fields_out(tmp_path: Path) -> None:
    sample = ThreadWatch((1 << 22) - 1, tmp_path).sample()
    assert set(sample) == {"python_threads", "python_threads_cpu_us"}


def test_a_busy_worker_is_seen_with_its_cpu_and_cores() -> None:
    resource_tracker.ensure_running()  # a child as well, which the first spawned process would start
    watch = ChildWatch()
    before = watch.sample()
    worker = get_context("spawn").Process(target=burn, args=(0.3,))
    worker.start()
    worker.join(0.01)
    during = watch.sample()
    assert during["children"] == before["children"] + 1
    assert during["children_allowed_cores"] >= 1
    deadline = time.monotonic() + 20
    while worker.is_alive() and time.monotonic() < deadline:
        last = watch.sample()
        time.sleep(0.01)
    worker.join(10)
    after = watch.sample()
    assert after["children"] == before["children"]
    assert after["children_cpu_us"] >= last["children_cpu_us"] >= before["children_cpu_us"] + 200_000


def test_the_cpu_time_of_another_process_is_read() -> None:
    child = subprocess.Popen([sys.executable, "-c", "sum(range(3_000_000)); input()"], stdin=subprocess.PIPE)
    deadline = time.monotonic() + 20
    while process_cpu_us(child.pid) < 20_000 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process_cpu_us(child.pid) >= 20_000
    child.communicate(b"\n", timeout=10)
