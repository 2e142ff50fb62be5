"""What a rank's loader gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evals.lab.scenarios import Data, Plan, Training

torch = pytest.importorskip("torch", reason="PyTorch (extra lab) is not installed")


def plan(folder: Path, data: Data) -> Plan:
    return Plan(Training(data=data), folder, 2, profile=False, measured_steps=40)


def test_ranks_draw_the_same_sizes_unless_these_may_differ(tmp_path: Path) -> None:
    from evals.lab.samples import sizes

    data = Data(sizes=(24, 72))
    together = plan(tmp_path, data)
    assert sizes(together, 0) == sizes(together, 1)
    assert set(sizes(together, 0)) == {24, 72}
    apart = plan(tmp_path, replace(data, sizes_differ=True))
    assert sizes(apart, 0) != sizes(apart, 1)


@pytest.mark.parametrize(
    "data",
    [Data(), Data(in_files=True), Data(packing="zlib", samples_in_pack=3), Data(packing="lzma")],
    ids=["memory", "files", "zlib", "lzma"],
)
def test_a_sample_is_the_same_however_it_is_stored(data: Data, tmp_path: Path) -> None:
    from evals.lab.samples import Samples, write_samples

    inputs = np.arange(5 * 2 * 3, dtype=np.float32).reshape(5, 2, 3)
    write_samples(tmp_path / "data0", inputs, np.arange(5), data)
    samples = Samples(tmp_path / "data0", data, lambda raw: raw)
    assert len(samples) == 5
    for index in (0, 2, 4):
        values, target = samples[index]
        assert torch.equal(values, torch.from_numpy(inputs[index]))
        assert int(target) == index


def test_images_are_cut_and_filled_up_again(tmp_path: Path) -> None:
    from evals.lab.workloads.classifiers import Images

    images = Images.__new__(Images)
    batch = (torch.ones(2, 3, 48, 48), torch.zeros(2))
    assert images.trim(batch, 32, 0)[0].shape == (2, 3, 32, 32)
    filled = images.trim(batch, 32, 48)[0]
    assert filled.shape == (2, 3, 48, 48)
    assert filled.sum() == 2 * 3 * 32 * 32
