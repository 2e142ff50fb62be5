"""Our figures beside those that other tools publish for the same recorded runs.

Every numeric fact of the manifest for formats that are read has a row here, by the other tool's definition. Where our
own definition gives another figure, the row says why and asserts ours as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.real_runs import real_profile
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.whatif.critical_path import critical_path

Figure = Callable[[Profile], float]
READ_FORMATS = ("kineto/", "hta/", "tracelens/")
ROUNDED = 1e-6


def metric(name: str, **arguments: str | int) -> Figure:
    """The metric of that name on the run's only rank."""
    return lambda profile: measure(profile, name, rank=profile.run.rank_numbers[0], **arguments).value


@dataclass(frozen=True)
class Peer:
    """One published figure, how we compute it, and where our own definition differs."""

    path: str
    fact: str
    figure: Figure
    decimals: int = 0
    difference: str = ""
    own: Figure | None = None
    own_value: float = 0.0


def plugin(path: str) -> tuple[Peer, ...]:
    roles = {"step": "step", "kernel": "kernel", "runtime": "runtime", "dataloader": "data_loader"}
    return (
        *(Peer(path, f"tb_plugin_{fact}_us", metric("plugin_role_us", role=role)) for fact, role in roles.items()),
        Peer(path, "tb_plugin_dataloader_pct", metric("plugin_role_pct", role="data_loader"), 2),
        Peer(path, "gpu_utilization_pct", metric("plugin_utilization_pct"), 2),
    )


def temporal(path: str, difference: str = "", own_idle_pct: float = 0.0) -> tuple[Peer, ...]:
    return (
        Peer(
            path,
            "hta_idle_pct",
            metric("temporal_pct", part="idle", resolution_ns=1000),
            2,
            difference,
            metric("temporal_pct", part="idle") if difference else None,
            own_idle_pct,
        ),
        Peer(path, "hta_compute_pct", metric("temporal_pct", part="compute", resolution_ns=1000), 2),
        Peer(path, "hta_non_compute_pct", metric("temporal_pct", part="non_compute", resolution_ns=1000), 2),
        Peer(path, "hta_overlap_pct", metric("temporal_overlap_pct", resolution_ns=1000), 2),
    )


def timeline(part: str) -> Figure:
    return metric("timeline_ms", part=part, recomputed=0, memsets=0)


def timeline_pct(part: str) -> Figure:
    return lambda profile: 100.0 * timeline(part)(profile) / timeline("total")(profile)


def path_share_pct(profile: Profile) -> float:
    """Length of our critical path in percent of the time it explains."""
    path = critical_path(profile)
    spans = [profile.rank(path.rank).rank.step(number).wall_ns for number in path.steps]
    return 100.0 * float((path.segments["end_ns"] - path.segments["start_ns"]).sum()) / sum(spans)


def second_stream_pair(profile: Profile) -> tuple[float, float]:
    """Of the last Fourier kernel on the second stream: call to start, and its end to the next kernel's start, in us."""
    view = profile.ranks[0]
    launches = view.launches
    streams = view.events.tracks["stream"].to_numpy()[launches["track"].to_numpy()]
    names = view.names(launches["device_row"].to_numpy())
    fourier = np.array(["fft2d_r2c" in name for name in names])
    second = np.flatnonzero((streams != streams[0]) & fourier)[-1]
    later = launches[(launches["track"] == launches["track"].iloc[second]).to_numpy()]
    after = later[later["start_ns"] > launches["start_ns"].iloc[second]].iloc[0]
    delay = float(launches["start_ns"].iloc[second] - launches["call_start_ns"].iloc[second])
    return delay / 1e3, float(after["start_ns"] - launches["end_ns"].iloc[second]) / 1e3


RESNET0, RESNET4 = (f"kineto/resnet50_workers{workers}.pt.trace.json.gz" for workers in (0, 4))
MI300 = "tracelens/mi300_resnet_act_checkpoint.json.gz"
SIMPLE_ADD = "hta/critical_path_simple_add.json.gz"
RECOMPUTED = (
    "TraceLens leaves out what activation checkpointing computes again, and memsets that no arrow joins to a call"
)
NODES = (
    "HTA counts the start and end nodes of single host operators inside one annotated window; our path has stretches "
    "over the whole window, so what can be compared is that it explains all of the time"
)

PEERS = (
    *plugin(RESNET0),
    Peer(
        RESNET0,
        "raw_dataloader_share_pct",
        metric("loader_span_pct"),
        1,
        "the plugin counts the loader only while neither device nor runtime is busy; so does our data wait",
        metric("part_pct", part="data_wait"),
        33.37,
    ),
    *plugin(RESNET4),
    *temporal(
        "hta/nccl_parser_config.json.gz",
        "HTA cuts times inwards to whole microseconds, which shortens kernels of a few microseconds",
        77.23,
    ),
    *temporal("hta/df_index_resolver.json.gz"),
    *temporal("hta/negative_queue_length_values_check.json.gz"),
    *temporal("hta/trace_diff_control.json.gz"),
    *temporal("hta/trace_diff_test.json.gz"),
    *(
        Peer(SIMPLE_ADD, fact, path_share_pct, 0, NODES, path_share_pct, 100.0)
        for fact in ("hta_path_nodes", "hta_critical_events", "hta_critical_edges")
    ),
    Peer(SIMPLE_ADD, "hta_launch_delay_us", lambda profile: second_stream_pair(profile)[0]),
    Peer(SIMPLE_ADD, "hta_kernel_kernel_delay_us", lambda profile: second_stream_pair(profile)[1]),
    Peer(MI300, "total_ms", timeline("total"), 4),
    Peer(MI300, "compute_ms", timeline("compute"), 3, RECOMPUTED, metric("timeline_ms", part="compute"), 19.56),
    Peer(
        MI300,
        "exposed_comm_ms",
        timeline("exposed_communication"),
        3,
        RECOMPUTED,
        metric("timeline_ms", part="exposed_communication"),
        35.09,
    ),
    Peer(MI300, "exposed_comm_pct", timeline_pct("exposed_communication"), 2),
    Peer(MI300, "total_comm_ms", timeline("communication"), 1),
    Peer(MI300, "idle_ms", timeline("idle"), 3, RECOMPUTED, metric("timeline_ms", part="idle"), 0.28),
    Peer(MI300, "idle_pct", timeline_pct("idle"), 2),
)
OTHERWISE_DEFINED = ("hta_path_nodes", "hta_critical_events", "hta_critical_edges")


def _id(peer: Peer) -> str:
    return f"{Path(peer.path).name.split('.')[0]}-{peer.fact}"


@pytest.fixture(scope="module")
def published(traces: Path) -> dict[tuple[str, str], float]:
    """Every numeric fact of the manifest for the formats that are read."""
    manifest = yaml.safe_load((traces / "manifest.yaml").read_text(encoding="utf-8"))
    return {
        (entry["path"], fact): value
        for entry in manifest
        if entry["path"].startswith(READ_FORMATS)
        for fact, value in entry.get("facts", {}).items()
        if isinstance(value, int | float)
    }


@pytest.fixture(scope="module")
def profile_at(traces: Path) -> Callable[[str], Profile]:
    """The profile of one of the traces, read once."""
    return lambda path: real_profile(traces / path)


def test_no_published_figure_is_left_out(published: dict[tuple[str, str], float]) -> None:
    table = {(peer.path, peer.fact) for peer in PEERS}
    assert set(published) - table == set()


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer.fact not in OTHERWISE_DEFINED], ids=_id)
def test_a_published_figure_is_met_within_its_rounding(
    peer: Peer, published: dict[tuple[str, str], float], profile_at: Callable[[str], Profile]
) -> None:
    if (peer.path, peer.fact) not in published:
        pytest.skip(f"the manifest has no {peer.fact} for {peer.path}")
    theirs = published[peer.path, peer.fact]
    ours = peer.figure(profile_at(peer.path))
    assert abs(ours - theirs) <= 0.5 * 10**-peer.decimals + ROUNDED


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer.own is not None], ids=_id)
def test_our_own_definition_gives_its_own_figure_for_a_stated_reason(
    peer: Peer, profile_at: Callable[[str], Profile]
) -> None:
    assert peer.difference
    assert peer.own is not None
    assert peer.own(profile_at(peer.path)) == pytest.approx(peer.own_value, abs=0.006)
