"""Every figure of the io, cpu, idle, launch and memory metrics can be measured again and shows its rows."""

from __future__ import annotations

import pytest

from tests.synthetic import RankBuilder, profile_of
from tools.errors import UsageError
from tools.findings import Argument
from tools.metrics import idle, io, memory
from tools.metrics.host import launches
from tools.metrics.host import program as cpu
from tools.metrics.measurement import metrics_of
from tools.metrics.registry import measure, measurement
from tools.run.events import EventKind
from tools.views.profile import Profile


@pytest.fixture(scope="module")
def profile() -> Profile:
    rank = RankBuilder(3, record_shapes="1")
    for step in range(2):
        at = 1000 * step
        rank.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, 100)
        rank.operator("aten::stack", at + 10, 50)
        rank.copy("Memcpy HtoD (Pageable -> Device)", start_us=at + 120, duration_us=30, call_us=at + 100)
        rank.kernel("gemm", start_us=at + 202, duration_us=600, call_us=at + 200)
        rank.runtime("cudaDeviceSynchronize", at + 210, 600)
        rank.runtime("cudaMalloc", at + 820, 40)
        rank.step(step, at, at + 1000)
    mark = rank.event(EventKind.INSTANT, "[memory]", 5, 0)
    sizes = {"bytes": 1, "total_allocated": 2**20, "total_reserved": 2**21, "device_type": 1, "device": 0}
    rank.detail("memory", mark, **sizes)
    return profile_of(rank)


EXTRA: dict[str, dict[str, Argument]] = {
    "host_span_ms": {"pattern": "synchronization"},
    "host_span_exposed_ms": {"pattern": "synchronization"},
    "host_span_exposed_pct": {"pattern": "synchronization"},
    "host_span_count": {"pattern": "synchronization"},
    "host_span_longest_ms": {"pattern": "synchronization"},
    "profiled_events_per_step": {"kind": "operator"},
    "loader_frames_pct": {"what": "reading"},
    "loader_named_pct": {"name": "aten::stack"},
}
MINE = list(metrics_of(cpu, idle, io, launches, memory))


@pytest.mark.parametrize("name", MINE)
def test_every_figure_can_be_measured_again(profile: Profile, name: str) -> None:
    arguments = {"rank": 3, **EXTRA.get(name, {})}
    fact = measure(profile, name, **arguments)
    again = measure(profile, fact.metric, **dict(fact.arguments))
    assert again == fact
    assert fact.ranks == (3,)
    assert fact.selector
    assert measurement(profile, name, **arguments).rows() is not None


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("loader_span_ms", {}, 0.1),
        ("loader_operators_pct", {}, 50.0),
        ("loader_wait_steps", {}, 2),
        ("upload_exposed_ms", {}, 0.03),
        ("upload_exposed_pct", {}, 3.0),
        ("launches_per_step", {}, 2),
        ("launched_kernel_us", {}, 600),
        ("launch_delay_us", {}, 9),
        ("launch_delay_us", {"stream": 7}, 9),
        ("blocking_calls_per_step", {}, 1),
        ("blocking_wait_ms", {}, 0.592),
        ("host_span_ms", {"pattern": "synchronization"}, 0.6),
        ("host_span_ms", {"pattern": "synchronization", "statistic": "max"}, 0.6),
        ("host_span_exposed_ms", {"pattern": "synchronization"}, 0.008),
        ("host_span_exposed_pct", {"pattern": "synchronization"}, 0.8),
        ("host_span_count", {"pattern": "synchronization"}, 2),
        ("device_idle_ms", {}, 0.37),
        ("device_idle_pct", {"reason": "data"}, 10.0),
        ("device_idle_ms", {"reason": "allocation"}, 0.04),
        ("allocation_calls", {}, 1),
        ("allocation_ms", {}, 0.04),
        ("memory_peak_mib", {"what": "reserved"}, 2),
        ("memory_unused_pct", {}, 50.0),
        ("profiled_events_per_step", {"kind": "operator"}, 1),
        ("profiling_overhead_ms", {}, 0.001),
    ],
)
def test_figures_are_as_built(profile: Profile, name: str, arguments: dict[str, Argument], value: float) -> None:
    assert measure(profile, name, rank=3, **arguments).value == pytest.approx(value)


@pytest.mark.parametrize(
    ("name", "arguments", "hint"),
    [
        ("device_idle_ms", {"reason": "boredom"}, "dispatch"),
        ("device_idle_ms", {"statistic": "mode"}, "median"),
        ("host_span_ms", {"pattern": "nothing"}, "the nearest are"),
        ("profiled_events_per_step", {"kind": "kernel"}, "python"),
        ("loader_frames_pct", {"what": "dreaming"}, "reading"),
        ("memory_peak_mib", {"what": "lost"}, "reserved"),
        ("launch_delay_us", {"stream": 99}, "99"),
    ],
)
def test_a_wrong_argument_is_answered_with_the_right_ones(
    profile: Profile, name: str, arguments: dict[str, Argument], hint: str
) -> None:
    with pytest.raises(UsageError, match=hint):
        measure(profile, name, rank=3, **arguments)


def test_a_rank_without_a_device_has_no_device_idle_time() -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::add", 0, 10)
    rank.step(0, 0, 10)
    with pytest.raises(UsageError, match="no device"):
        measure(profile_of(rank), "device_idle_ms", rank=0)
