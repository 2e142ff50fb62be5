"""The advice table covers the taxonomy and speaks its language."""

from __future__ import annotations

import re

import pytest

from tools.knowledge.taxonomy import causes, optimizations


def test_every_mechanism_in_the_advice_belongs_to_its_cause() -> None:
    strange = [
        (cause.id, row.mechanism)
        for cause in causes().values()
        for row in cause.advice
        if row.mechanism is not None and row.mechanism not in cause.mechanisms
    ]
    assert strange == []


def test_no_two_causes_or_mechanisms_have_the_same_name() -> None:
    names = [name for cause in causes().values() for name in (cause.name, *cause.mechanism_names.values())]
    for kind in ("title", "phrase"):
        values = [getattr(name, kind) for name in names]
        assert len(set(values)) == len(values)
        assert not [value for value in values if "_" in value]


def test_a_title_names_the_ranks_where_they_are_known() -> None:
    (row,) = optimizations("straggler", None)
    assert row.title("rank 7") == "Find what delays rank 7"
    assert row.title() == "Find what delays the late rank"


KINDS = ("host", "nvidia", "amd", "accelerator")
OF_DEVICES = re.compile(r"nvidia-smi|CUDA|NCCL|nccl|cuda|tensor core")
ONLY_THERE = ("launch_blocking", "host_synchronization", "no_tensor_core", "shape_alignment")  # found on devices only
ONLY_ON_DEVICES = ("slow_data_fetching",)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cause", sorted(causes()))
def test_every_kind_of_hardware_gets_advice_of_its_own(cause: str, kind: str) -> None:
    for mechanism in (None, *causes()[cause].mechanisms):
        rows = optimizations(cause, mechanism, kind=kind)
        assert rows, f"{cause}/{mechanism} has no advice on {kind}"
        assert len({row.optimization for row in rows}) == len(rows)


@pytest.mark.parametrize("cause", sorted(set(causes()) - set(ONLY_ON_DEVICES)))
def test_a_run_on_processors_is_not_sent_to_the_tools_of_devices(cause: str) -> None:
    for mechanism in (None, *causes()[cause].mechanisms):
        if mechanism not in (*ONLY_THERE, "allocator_retry", "socket_fallback", "no_gpu_direct", "wrong_interface"):
            for row in optimizations(cause, mechanism, kind="host"):
                assert not OF_DEVICES.search(row.how), f"{cause}/{mechanism}: {row.how}"


OF_CUDA = re.compile(r"CUDA graphs?|CUDA_ALLOC|nccl-tests|NCCL_MAX|'cuda'")


@pytest.mark.parametrize("cause", sorted(causes()))
def test_an_accelerator_of_another_kind_gets_no_advice_for_cuda(cause: str) -> None:
    for mechanism in (None, *causes()[cause].mechanisms):
        if mechanism != "no_tensor_core":  # found where the device's matrix units are known
            for row in optimizations(cause, mechanism, kind="accelerator"):
                assert not OF_CUDA.search(row.how), f"{cause}/{mechanism}: {row.how}"


def test_dense_embedding_gradients_become_sparse_before_anything_is_fused() -> None:
    (first, *_) = optimizations("memory_bound", "dense_embedding_gradients", kind="host")
    assert "sparse=True" in first.how


@pytest.mark.parametrize("cause", sorted(causes()))
def test_advice_is_given_for_every_mechanism_and_for_none(cause: str) -> None:
    for mechanism in (None, *causes()[cause].mechanisms):
        rows = optimizations(cause, mechanism)
        assert rows, f"{cause}/{mechanism} has no advice"
        assert all(row.effort in (1, 2, 3) and row.how and row.risk and row.verify for row in rows)


PRESUMED = re.compile(r"\bnamed (host|rank|node|machine)s?\b|\bother (node|machine)s?\b")


@pytest.mark.parametrize("cause", sorted(causes()))
def test_advice_points_at_no_host_or_rank_that_the_claim_may_not_name(cause: str) -> None:
    for row in causes()[cause].advice:
        for text in (row.how, row.verify):
            assert not PRESUMED.search(text), f"{cause}/{row.mechanism}: {text}"
