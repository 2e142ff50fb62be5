"""The advised settings of recorded pairs against what they measured."""

from __future__ import annotations

import json

from evals.planners.advised_pairs import RECORDED, advised_pair, recorded_pairs


def test_the_bucket_size_of_a_recorded_pair_is_advised_and_its_measured_gain_lies_in_the_range() -> None:
    folder = RECORDED / "tiny_buckets/tokens-mild"
    assert folder in recorded_pairs([RECORDED])
    pair = advised_pair(folder)
    assert (pair.cause, pair.setting, pair.holds) == ("small_packet", "bucket_cap_mb=25", True)
    assert pair.measured == json.loads((folder / "measured.json").read_text())["speedup"]["median"]
    assert pair.line().endswith("| yes |")
