"""What the checks of sampled devices share: their readings, how they are called, and whether the training ran then."""

from __future__ import annotations

from tools.analyzers.support.answers import say
from tools.analyzers.support.figures import measured
from tools.findings import Fact, Sentence
from tools.run.first_printed import idle_tables, sampled_before_steps
from tools.views.counters import BUSY, POWER, POWER_SHARE, DeviceReadings, counter_view, rank_of_device, waits_only
from tools.views.profile import Profile

# By the tool whose samples were read: what its vendor's devices can be sampled with.
SAMPLED_BY = {
    "npu-smi": "`while true; do date; npu-smi info; sleep 1; done > npus.txt` while the training runs",
    "rocm-smi": "`while true; do date; rocm-smi; sleep 1; done > gpus.txt` while the training runs",
    "amd-smi": "`while true; do date; rocm-smi; sleep 1; done > gpus.txt` while the training runs",
}
BUSY_NEEDED = (
    "`nvidia-smi --query-gpu=timestamp,index,utilization.gpu --format=csv -lms 500 -f gpus.csv` while it trains"
)
NO_LOAD = "no device is under load in any reading: the samples may not be of the running training"
NO_POWER = "utilization was not sampled, and no device draws the power of a load in any reading"
ONLY_WAITING = "kernels run, but no device draws the power of computation in any reading"
SHOWN = 8
BEFORE_STEPS = "before the first printed step"
NO_PROCESS = "the tables in the output show moments at which no process is on the devices"
NOT_YET = f"all readings stand {BEFORE_STEPS}, and no kernel ran then: they are not of the training"


def sampled_devices(profile: Profile) -> dict[str, DeviceReadings]:
    """The readings of each sampled device by its name; empty without samples."""
    view = counter_view(profile)
    return {} if view is None else dict(view.devices)


def to_sample(profile: Profile, otherwise: str) -> str:
    """What to record with the tools of the vendor whose devices were sampled; ``otherwise`` those of NVIDIA."""
    view = counter_view(profile)
    tools = () if view is None else tuple(each.tool for each in view.records.sources)
    return next((SAMPLED_BY[tool] for tool in tools if tool in SAMPLED_BY), otherwise)


def why_no_load(devices: dict[str, DeviceReadings]) -> str:
    """Why no device can be judged under load."""
    if waits_only(devices):
        return ONLY_WAITING
    sampled = any(each.has(BUSY) or not each.has(POWER) for each in devices.values())
    return NO_LOAD if sampled else NO_POWER


def device_called(profile: Profile, name: str) -> str:
    """The device, and the rank that uses it where the files lead to one."""
    rank = rank_of_device(profile, name)
    return name if rank is None else f"{name} (rank {rank})"


def under_load(devices: dict[str, DeviceReadings]) -> dict[str, DeviceReadings]:
    """Those of the devices that are under load in any reading."""
    return {name: each for name, each in devices.items() if each.loaded.any()}


def the_same(others: list[str]) -> str:
    """A sentence, after another one, that this holds of further devices; empty without such."""
    if not others:
        return ""
    more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
    return f" The same holds for device{'s' if len(others) > 1 else ''} {', '.join(others[:SHOWN])}{more}."


def subject_of(profile: Profile, name: str) -> str:
    """The device at the beginning of a sentence, under load where the samples show the load."""
    return f"Under load device {name}" if sampled_devices(profile)[name].load_known else f"Device {name}"


def state_under_load(profile: Profile, name: str) -> tuple[Sentence, ...]:
    """Clock, temperature and power of a device under load, as far as they were sampled."""
    asked = (("mhz", "device_clock_mhz"), ("c", "device_temperature_c"), ("w", POWER), ("pct", POWER_SHARE))
    facts = [
        fact
        for unit, counter in asked
        if (fact := measured(profile, f"device_counter_{unit}", counter=counter, device=name, loaded=1)) is not None
    ]
    places = ", ".join(f"{{{at}}}" for at in range(len(facts)))
    places += " of its power limit" if facts and facts[-1].unit == "%" else ""
    return (say(f"{subject_of(profile, name)} has {places}.", *facts),) if facts else ()


def own_and_others(profile: Profile, unit: str, counter: str, name: str, loaded: int) -> tuple[Fact, Fact] | None:
    """A counter of the device, and the same of the other ones; None where either was not sampled."""
    own, others = (
        measured(profile, f"device_counter_{unit}", counter=counter, device=name, loaded=loaded, among=among)
        for among in ("device", "others")
    )
    return None if own is None or others is None else (own, others)


def busy_alike(profile: Profile, name: str) -> bool:
    """Whether kernels run as often on the device as on others of its model; False where that was not sampled."""
    busy = own_and_others(profile, "pct", "device_busy_pct", name, 1)
    return busy is not None and abs(busy[0].value - busy[1].value) <= profile.thresholds["like_load_points"]


def tables_without_process(profile: Profile) -> Sentence | None:
    """Where the tables stand that a job printed while nothing ran on its devices, if there are no other samples."""
    tables = idle_tables(profile.run)
    files = {int(each.table["file"].iloc[0]) for each in sampled_devices(profile).values()}
    if not files or files - set(tables):
        return None
    lines = [line for file in sorted(files) for line in tables[file]]
    shown = ", ".join(str(line) for line in lines[:SHOWN]) + (" and further ones" if len(lines) > SHOWN else "")
    text = f"The output holds nvidia-smi's table (line{'s' if len(lines) > 1 else ''} {shown})"
    each = "each" if len(lines) > 1 else "it"
    return say(f"{text}, and {each} shows a moment at which no process is on the devices: nothing of the training.")


def all_before_training(profile: Profile) -> bool:
    """Whether all readings are from before the first printed step, and no kernel ran at any of them."""
    devices = sampled_devices(profile).values()
    return all(
        all_before_steps(profile, each) and each.has("device_busy_pct") and not each.table["device_busy_pct"].any()
        for each in devices
    )


def all_before_steps(profile: Profile, device: DeviceReadings) -> bool:
    """Whether all readings stand before the first step line of the output that holds them."""
    return int(device.table["file"].iloc[0]) in sampled_before_steps(profile.run)
