"""Samples of several files become one table that still says which file each value was read from."""

from __future__ import annotations

import math

from tools.run.recorded.counters import (
    COUNTERS,
    SAMPLE_COLUMNS,
    CounterRecords,
    CounterSource,
    joined_counters,
    samples_table,
)


def record(name: str, *values: float) -> CounterRecords:
    table = samples_table(
        {
            "value": list(values),
            "counter": ["device_power_w"] * len(values),
            "tick": list(range(len(values))),
            "line": [at + 2 for at in range(len(values))],
        }
    )
    return CounterRecords(table, (CounterSource("utilization samples", name, "nvidia-smi"),))


def test_what_is_not_given_is_unknown() -> None:
    samples = record("smi.csv", 70.0).samples
    assert list(samples.columns) == list(SAMPLE_COLUMNS)
    row = samples.iloc[0]
    assert math.isnan(row["time_unix_ns"])
    assert (row["device"], row["rank"], row["host"], row["part"]) == (-1, -1, "", "")


def test_joined_records_keep_the_file_of_each_value() -> None:
    whole = joined_counters(record("a.csv", 70.0, 71.0), None, record("b.csv", 80.0))
    assert whole is not None
    assert [source.path for source in whole.sources] == ["a.csv", "b.csv"]
    assert whole.samples["file"].tolist() == [0, 0, 1]
    assert whole.samples["value"].tolist() == [70.0, 71.0, 80.0]


def test_without_samples_there_is_no_record() -> None:
    assert joined_counters(None, None) is None


def test_the_unit_of_a_counter_is_in_its_name() -> None:
    endings = {"%": "_pct", "bytes": "_bytes", "bytes/s": "_bytes_per_s", "/s": "_per_s", "W": "_w", "C": "_c"}
    endings |= {"MHz": "_mhz", "ms": "_ms"}
    known = {name: endings[each.unit] for name, each in COUNTERS.items() if each.unit in endings}
    assert len(known) > len(COUNTERS) / 2
    assert [name for name, ending in known.items() if not name.endswith(ending)] == []
