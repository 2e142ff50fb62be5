"""What the replay predicts for runs whose answer can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.synthetic import RankBuilder, profile_of, to_ns
from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.views.recording_cost import recording_costs
from tools.whatif.change import Change, Scale, Unblock
from tools.whatif.predict import MODEL_ERROR_SHARE, predict, reach, savings_ms, unchanged


def scaled(profile: Profile, track: int, *spans_us: tuple[float, float], factor: float = 0.0, rank: int = 0) -> Scale:
    """A change of the time inside spans of one track."""
    del profile
    intervals = np.array([[to_ns(start), to_ns(end)] for start, end in spans_us], dtype=np.int64)
    return Scale(rank, track, intervals, factor)


def saved_us(profile: Profile, *change: Scale | Unblock) -> float:
    """What the change saves per step, in microseconds."""
    return predict(profile, change).saving_ms * 1e3


def device_bound() -> RankBuilder:
    """Five steps of ten kernels of 100 us; the host launches a step's ten within 50 us and then waits for them."""
    rank = RankBuilder()
    for step in range(5):
        at = step * 1100.0
        for number in range(10):
            rank.kernel("gemm", start_us=at + 10 + number * 100, duration_us=100, call_us=at + number * 5)
        rank.runtime("cudaDeviceSynchronize", at + 52, 960)
        rank.step(step, at, at + 1100)
    return rank


def host_bound() -> RankBuilder:
    """Five steps of ten kernels of 10 us, one launched every 100 us; the host waits at the end of the step."""
    rank = RankBuilder()
    for step in range(5):
        at = step * 1100.0
        for number in range(10):
            rank.kernel("small", start_us=at + number * 100 + 6, duration_us=10, call_us=at + number * 100)
        rank.runtime("cudaDeviceSynchronize", at + 1000, 5)
        rank.step(step, at, at + 1100)
    return rank


def test_nothing_is_gained_on_the_host_while_the_device_is_behind() -> None:
    profile = profile_of(device_bound())
    launching = [(step * 1100.0 + 6, step * 1100.0 + 50) for step in range(5)]
    assert saved_us(profile, scaled(profile, 0, *launching)) == pytest.approx(0, abs=0.1)


def test_a_device_that_is_behind_gives_back_what_its_kernels_lose() -> None:
    profile = profile_of(device_bound())
    kernels = [(step * 1100.0 + 10, step * 1100.0 + 1010) for step in range(5)]
    assert saved_us(profile, scaled(profile, 1, *kernels, factor=0.5)) == pytest.approx(500, abs=1)


def test_little_is_gained_on_the_device_while_the_host_is_behind() -> None:
    profile = profile_of(host_bound())
    kernels = [(step * 1100.0 + n * 100 + 6, step * 1100.0 + n * 100 + 16) for step in range(5) for n in range(10)]
    assert saved_us(profile, scaled(profile, 1, *kernels)) == pytest.approx(0, abs=0.1)


def test_a_host_that_is_behind_gives_back_what_it_loses_until_the_device_is_behind() -> None:
    profile = profile_of(host_bound())
    between = [(step * 1100.0 + n * 100 + 2, step * 1100.0 + n * 100 + 98) for step in range(5) for n in range(10)]
    # 96 us between launches shrink to nothing, 4 us remain: now ten kernels of 10 us bind, then 95 us of host time.
    predicted = predict(profile, (scaled(profile, 0, *between),))
    assert predicted.step_ms_after * 1e3 == pytest.approx(6 + 10 * 10 + 95, abs=8)


def test_half_of_the_host_time_gives_back_exactly_that_half_while_the_host_stays_behind() -> None:
    profile = profile_of(host_bound())
    between = [(step * 1100.0 + n * 100 + 10, step * 1100.0 + n * 100 + 90) for step in range(5) for n in range(10)]
    assert saved_us(profile, scaled(profile, 0, *between, factor=0.5)) == pytest.approx(400, abs=1)


def test_work_launched_before_the_window_is_not_what_a_change_applies_to() -> None:
    rank = RankBuilder()
    for number in range(9):  # the device is three steps behind the host, which never waits
        rank.kernel("gemm", start_us=3000 + number * 1000, duration_us=1000, call_us=number * 1000 + 1)
    rank.kernel("before", start_us=0, duration_us=3000, call_us=-20)
    for step in range(9):
        rank.step(step, step * 1000, step * 1000 + 1000)
    profile = profile_of(rank)
    every = scaled(profile, 1, (0, 12_000), factor=0.9)
    assert saved_us(profile, every) == pytest.approx(100, abs=1)


def synchronising() -> RankBuilder:
    """Launch 300 us of kernel, read a value (wait), 200 us of host work, launch 300 us again, wait at the end."""
    rank = RankBuilder()
    for step in range(4):
        at = step * 1000.0
        rank.kernel("first", start_us=at + 10, duration_us=300, call_us=at)
        rank.operator("aten::item", at + 5, 310)
        rank.runtime("cudaStreamSynchronize", at + 6, 306)
        rank.kernel("second", start_us=at + 522, duration_us=300, call_us=at + 512)
        rank.runtime("cudaDeviceSynchronize", at + 516, 310)
        rank.step(step, at, at + 1000)
    return rank


def test_a_removed_wait_lets_the_host_work_while_the_device_does() -> None:
    rank = synchronising()
    profile = profile_of(rank)
    view = profile.rank(0)
    calls = np.flatnonzero(view.events.frame["name"].astype(str) == "cudaStreamSynchronize")
    # Second launch after 6 + 2 (return of the call) + 200 us instead of 512 us; it queues behind the first kernel.
    assert saved_us(profile, Unblock(0, calls)) == pytest.approx(212, abs=3)


def test_a_wait_is_found_by_the_operator_around_it() -> None:
    profile = profile_of(synchronising())
    view = profile.rank(0)
    names = view.events.frame["name"].astype(str)
    by_call = Unblock(0, np.flatnonzero(names == "cudaStreamSynchronize"))
    by_operator = Unblock(0, np.flatnonzero(names == "aten::item"))
    assert saved_us(profile, by_operator) == saved_us(profile, by_call) > 0


def test_the_cautious_view_of_removed_waits_keeps_half_of_them() -> None:
    profile = profile_of(synchronising())
    calls = np.flatnonzero(profile.rank(0).events.frame["name"].astype(str) == "cudaStreamSynchronize")
    prediction = predict(profile, (Unblock(0, calls),))
    kept = 1.0 - reach(profile, "profiled").cautious * (0.5 + MODEL_ERROR_SHARE)
    assert prediction.step_ms_before - prediction.high_ms == pytest.approx(prediction.saving_ms * kept, abs=1e-3)


def test_a_blocking_copy_holds_the_host_until_the_device_has_copied() -> None:
    rank = RankBuilder()
    for step in range(3):
        at = step * 1000.0
        rank.kernel("gemm", start_us=at + 10, duration_us=500, call_us=at)
        rank.copy("Memcpy DtoH", start_us=at + 512, duration_us=20, call_us=at + 20, call_duration_us=520)
        rank.step(step, at, at + 1000)
    profile = profile_of(rank)
    kernels = [(step * 1000.0 + 10, step * 1000.0 + 510) for step in range(3)]
    # The kernel's 500 us go; the copy then starts its launch latency (at most 10 us) after its call.
    assert saved_us(profile, scaled(profile, 1, *kernels)) == pytest.approx(490, abs=6)


def test_savings_count_shared_time_once() -> None:
    profile = profile_of(host_bound())
    spans = [(step * 1100.0 + n * 100 + 10, step * 1100.0 + n * 100 + 90) for step in range(5) for n in range(10)]
    half: Change = (scaled(profile, 0, *spans, factor=0.5),)
    first, second, third = savings_ms(profile, [half, half, (scaled(profile, 0, *spans[:10], factor=0.0),)])
    assert first == pytest.approx(0.4, abs=1e-3)
    assert first == predict(profile, half).saving_ms
    assert second == 0.0
    assert third == pytest.approx(0.4 / 5, abs=1e-2)


def test_the_interval_runs_from_the_hopeful_to_the_cautious_effect_and_a_model_error_beyond() -> None:
    profile = profile_of(host_bound())
    spans = [(step * 1100.0 + n * 100 + 10, step * 1100.0 + n * 100 + 90) for step in range(5) for n in range(10)]
    change = Scale(0, 0, scaled(profile, 0, *spans).intervals, factor=0.5, cautious_factor=0.75)
    prediction = predict(profile, (change,))
    far, view_ms = reach(profile, "profiled"), 0.2 + MODEL_ERROR_SHARE * 0.4  # half as much more or less, and the error
    assert prediction.low_ms == pytest.approx(1.1 - 0.4 - far.hopeful * view_ms, abs=1e-3)
    assert prediction.high_ms == pytest.approx(1.1 - 0.4 + far.cautious * view_ms, abs=1e-3)
    assert prediction.speedup_low < prediction.speedup == pytest.approx(1.1 / 0.7, rel=1e-3)


def test_a_change_of_nothing_saves_nothing() -> None:
    prediction = predict(profile_of(host_bound()), ())
    assert prediction.saving_ms == 0.0
    assert prediction.low_ms == prediction.high_ms == prediction.recorded_ms


def test_uneven_steps_widen_the_interval_in_proportion_to_the_saving() -> None:
    rank = RankBuilder()
    starts = np.concatenate((np.zeros(1), np.cumsum([1000.0, 1200.0, 900.0, 1100.0])))
    for step, at in enumerate(starts[:-1]):
        rank.operator("work", float(at), 500)
        rank.step(step, float(at), float(starts[step + 1]))
    profile = profile_of(rank)
    change = scaled(profile, 0, *[(float(at), float(at) + 500) for at in starts[:-1]])
    deviation = np.std([1.0, 1.2, 0.9, 1.1], ddof=1) / 2
    assert predict(profile, (change,)).error_ms == pytest.approx(deviation * 0.5 / 1.05, rel=1e-3)


def uneven(lengths_us: list[float]) -> tuple[Profile, Change]:
    """Steps of these lengths, half of each of them host work, and the change that takes this work away."""
    rank = RankBuilder()
    starts = np.concatenate((np.zeros(1), np.cumsum(lengths_us)))
    for step, length in enumerate(lengths_us):
        rank.operator("work", float(starts[step]), length / 2)
        rank.step(step, float(starts[step]), float(starts[step + 1]))
    profile = profile_of(rank)
    spans = [(float(at), float(at) + length / 2) for at, length in zip(starts, lengths_us, strict=False)]
    return profile, (scaled(profile, 0, *spans),)


def test_a_saving_within_two_standard_errors_of_nothing_is_withheld() -> None:
    # Mean 1000, standard deviation 1131, standard error 800 us: the saving of 500 us has an error of 400 us.
    prediction = predict(*uneven([200.0, 1800.0]))
    assert prediction.saving_ms == pytest.approx(0.5)
    assert prediction.error_ms == pytest.approx(0.4)
    assert "differ so much" in prediction.withheld


def test_a_saving_well_beyond_its_error_is_given() -> None:
    # Mean 1000, standard deviation 283, standard error 200 us: the saving of 500 us has an error of 100 us.
    prediction = predict(*uneven([800.0, 1200.0]))
    assert prediction.error_ms == pytest.approx(0.1)
    assert prediction.withheld == ""


@pytest.mark.parametrize("lengths_us", [[1000.0], [10.0, 90_000.0], [500.0, 700.0, 600.0]])
def test_the_expected_step_lies_inside_a_finite_interval(lengths_us: list[float]) -> None:
    prediction = predict(*uneven(lengths_us))
    assert 0 < prediction.low_ms <= prediction.step_ms_after <= prediction.high_ms
    assert 1 / 20 < prediction.speedup_low <= prediction.speedup <= prediction.speedup_high <= 20.001


def test_a_replay_without_change_ends_when_the_record_does() -> None:
    base = unchanged(profile_of(synchronising()))
    assert base.missed_ms == 0.0
    assert np.array_equal(base.identity.end_ns, base.graph.nodes.end_ns)


def framed() -> RankBuilder:
    """``host_bound`` with 1,000 Python frames in the first half of each step, one every 0.5 us."""
    rank = host_bound()
    for step in range(5):
        for number in range(1000):
            rank.event(EventKind.PYTHON, "train.py(1): draw", step * 1100.0 + number * 0.5, 0.4)
    return rank


def test_a_gain_is_the_share_of_the_step_without_what_recording_its_frames_takes() -> None:
    profile, halves = profile_of(framed()), [(step * 1100.0, step * 1100.0 + 500) for step in range(5)]
    plain = predict(profile_of(host_bound()), (scaled(profile, 0, *halves),))
    assert plain.saving_ms == pytest.approx(0.5, abs=1e-2)
    usual_ms = 1.1 - 1000 * 0.15e-3  # a frame takes 0.15 us
    found = predict(profile, (scaled(profile, 0, *halves),))
    assert found.recorded_ms == found.step_ms_before == plain.recorded_ms
    assert found.saving_ms == pytest.approx(1.1 * (0.5 - 0.15) / usual_ms, abs=1e-2)
    assert predict(profile, ()).saving_ms == 0.0


def test_recording_takes_no_more_than_half_of_the_time_between_two_events() -> None:
    profile = profile_of(framed(), profiled_frame_us=1.0)
    (cost,) = recording_costs(profile).values()
    assert cost.taken_ns[-1] == pytest.approx(5 * 0.5 * 500e3, rel=0.01)
