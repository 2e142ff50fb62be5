"""Inputs that cannot be are refused in one sentence that names the field."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tools.errors import HermesError, UsageError
from tools.whatif.planners.registry import MODULES, as_record, planner

SMALL: dict[str, dict[str, object]] = {
    "gradient-buckets": {
        "gradients": [{"ready_ms": 4, "bytes": 2}, {"ready_ms": 9, "bytes": 2}],
        "link": {"alpha_ms": 2, "beta_ms_per_byte": 0.5},
    },
    "pipeline-memory": {
        "layers": [{"forward_ms": 1, "backward_ms": 2, "activation_bytes": 3, "weight_bytes": 4, "optimizer_bytes": 5}],
        "stages": 1,
        "device_memory_bytes": 100,
        "host_link_bytes_per_ms": 10,
    },
    "supernet": {"stages": 2, "layers": 4, "choices": 3, "subnets": 5, "seed": 1},
    "expert-degree": {
        "all_to_all": {"alpha_ms": 1, "beta_ms_per_byte": 0.1, "bytes": 10},
        "experts": {"alpha_ms": 1, "beta_ms_per_operation": 0.1, "operations": 10},
        "max_degree": 4,
    },
    "expert-schedule": {
        "chunks": 2,
        "tasks_ms": {
            **{"compress_1": 1, "all_to_all_1": 2, "decompress_1": 1, "experts": 3},
            **{"compress_2": 1, "all_to_all_2": 2, "decompress_2": 1},
        },
    },
    "layout": {
        "model": {"layers": 2, "hidden_width": 8, "heads": 2, "sequence_length": 4, "vocabulary": 10},
        "cluster": {
            **{"devices": 2, "devices_per_node": 2, "device_memory_bytes": 1e9, "operations_per_ms": 1e6},
            "inside_node": {"alpha_ms": 0.1, "beta_ms_per_byte": 1e-6},
            "between_nodes": {"alpha_ms": 0.1, "beta_ms_per_byte": 1e-6},
        },
        "global_batch": 4,
    },
    "straggler": {
        "operations": [
            {
                **{"dp_rank": 0, "stage": 0, "rank": 0, "step": 1, "optype": kind, "start_ms": 10 * place},
                **{"duration_ms": 10, "seq_id": 0, "mc": 0, "gmc": 0},
            }
            for place, kind in enumerate(["forward-compute", "backward-compute", "optimizer"])
        ]
    },
}


def test_every_planner_is_listed_here() -> None:
    assert SMALL.keys() == MODULES.keys()


@pytest.mark.parametrize("name", MODULES)
def test_the_answer_has_the_fields_of_the_contract_and_of_its_schema(name: str) -> None:
    chosen = planner(name)
    record = as_record(chosen.plan(json.dumps(SMALL[name]).encode()))
    fields = {"schema", "planner", "plan", "before_ms", "after_ms", "gap_ms", "by", "bound", "assumptions"}
    assert record.keys() == fields
    assert (record["schema"], record["planner"], record["by"]) == ("hermes-dx/plan/1", name, "simulation")
    made, schema = record["plan"], chosen.schema()["plan"]
    assert isinstance(made, dict)
    assert isinstance(schema, dict)
    assert made.keys() == schema["properties"].keys()


@pytest.mark.parametrize("name", MODULES)
def test_an_unknown_field_names_the_nearest_known_one(name: str) -> None:
    known = next(iter(SMALL[name]))
    with pytest.raises(UsageError, match=f"unknown field '{known}x'; the nearest known one is {known}"):
        planner(name).plan(json.dumps({**SMALL[name], f"{known}x": 1}).encode())


def test_an_unknown_field_is_named_where_it_is() -> None:
    wrong = {"gradients": [{"ready": 4, "bytes": 2}], "link": {"alpha_ms": 2, "beta_ms_per_byte": 0.5}}
    with pytest.raises(UsageError, match=r"unknown field 'ready' in gradients\[0\]; the nearest known one is ready_ms"):
        planner("gradient-buckets").plan(json.dumps(wrong).encode())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"[1]", "should be an object"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"gradients": [], "link": {"alpha_ms": 1, "beta_ms_per_byte": 0}}', "at least 1 item"),
        (
            b'{"gradients": [{"ready_ms": -1, "bytes": 2}], "link": {"alpha_ms": 1, "beta_ms_per_byte": 0}}',
            "ready_ms: -1",
        ),
        (b'{"gradients": [{"ready_ms": NaN, "bytes": 2}], "link": {"alpha_ms": 1, "beta_ms_per_byte": 0}}', "finite"),
        (b'{"gradients": [{"ready_ms": 1e999, "bytes": 2}], "link": {"alpha_ms": 1, "beta_ms_per_byte": 0}}', "finite"),
        (b'{"gradients": [{"ready_ms": "1", "bytes": 2}], "link": {"alpha_ms": 1, "beta_ms_per_byte": 0}}', "number"),
        (b'{"gradients": [{"ready_ms": true, "bytes": 2}], "link": {"alpha_ms": 1, "beta_ms_per_byte": 0}}', "number"),
        (b'{"gradients": [{"bytes": 2}], "link": {"alpha_ms": 1, "beta_ms_per_byte": 0}}', "ready_ms is missing"),
        (
            b'{"gradients": [{"ready_ms": 1, "bytes": 2}], "link": {"alpha_ms": 1, "beta_ms_per_byte": 1e-18}}',
            "1e\\+18 bytes per ms",
        ),
        (
            b'{"gradients": [{"ready_ms": 2, "bytes": 2}, {"ready_ms": 1, "bytes": 2}], '
            b'"link": {"alpha_ms": 1, "beta_ms_per_byte": 0}}',
            "in order of readiness",
        ),
        (b"PAR1", "reads JSON"),
    ],
)
def test_what_is_wrong_is_one_sentence(content: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        planner("gradient-buckets").plan(content)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("pipeline-memory", {"host_link_bytes_per_ms": 1e18}, "host_link_bytes_per_ms: 1e"),
        ("pipeline-memory", {"host_link_bytes_per_ms": 0}, "host_link_bytes_per_ms: 0"),
        ("pipeline-memory", {"stages": 2}, "2 stages cannot be filled with 1 layers"),
        ("pipeline-memory", {"current": [1]}, "1 first layers are needed, rising from 0"),
        ("supernet", {"seed": None}, "give subnets and seed, or subnet_choices"),
        ("supernet", {"stages": 9}, "do not fill 9 stages"),
        ("supernet", {"subnets": None, "subnet_choices": [[0, 1, 2, 3]]}, "4 choices from 0 to 2"),
        ("supernet", {"forward_ms": [1, 2, 3]}, "3 times for 2 stages"),
        ("expert-degree", {"max_degree": 0}, "max_degree: 0"),
        ("expert-degree", {"all_to_all": {"alpha_ms": 1, "bytes": 1}}, "beta_ms_per_byte is missing"),
        ("expert-schedule", {"chunks": 0}, "chunks: 0"),
        (
            "expert-degree",
            {"all_to_all": {"points": [{"bytes": 1, "ms": 1}, {"bytes": 2, "ms": 1e-7}], "bytes": 1}},
            "every measured time has to be 1 ns or longer",
        ),
        ("layout", {"measured_step_ms": 0}, "measured_step_ms: 0"),
        ("layout", {"measured_step_ms": 5}, "give the layout it was measured with as current"),
    ],
)
def test_impossible_values_are_refused(name: str, change: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        planner(name).plan(json.dumps({**SMALL[name], **change}).encode())


ODD: tuple[object, ...] = (-1, 0, 10**30, 10**400, 1e308, 1e-300, None, "x", [], {}, True)


def places(part: object, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where the single values of a JSON object are."""
    entries = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else None
    if entries is None:
        yield place
    else:
        for name, member in entries:
            yield from places(member, (*place, name))


@pytest.mark.parametrize("name", MODULES)
def test_any_odd_value_anywhere_gives_a_plan_or_one_sentence(name: str) -> None:
    for place in places(SMALL[name]):
        for value in ODD:
            changed = json.loads(json.dumps(SMALL[name]))
            part = changed
            for step in place[:-1]:
                part = part[step]
            part[place[-1]] = value
            try:
                record = as_record(planner(name).plan(json.dumps(changed).encode()))
            except HermesError as error:
                refusal = str(error)
                record = {"lines": len(refusal.splitlines())}
            json.dumps(record, allow_nan=False)
            assert record.get("lines", 1) == 1
