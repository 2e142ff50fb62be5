"""The PCIe link of sampled devices, instances of split devices (MIG), and uncorrected memory errors."""

from __future__ import annotations

from tools.analyzers.support.answers import say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Sentence
from tools.views.counters import CounterView, counter_view
from tools.views.profile import Profile

SHOWN = 4
INSTANCE = "MIG "
ENGINES = "device_engine_active_pct"
SHARES = {ENGINES: "engines active {}", "device_sm_active_pct": "multiprocessors with work {}"}
ERRORS = "device_ecc_errors"


@check(
    *("computation.device_links", "PCIe and memory errors by samples", "Do devices have their PCIe link and memory?"),
    from_records="samples",
)
def device_links(profile: Profile) -> Check | None:
    """A link with fewer lanes than it may have, one of a lower generation under load, and uncorrected errors."""
    view = counter_view(profile)
    if view is None:
        return None
    said = [each for name in list(view.devices)[:SHOWN] for each in _link(profile, name)]
    errors = measured(profile, "counted_total", counter=ERRORS)
    if errors is not None and errors.value > 0:
        text = "Devices count uncorrected memory errors ({0}) since the driver was loaded: an error of the hardware."
        said.append(say(text, errors))
    return symptom(*said) if said else None


def _link(profile: Profile, name: str) -> list[Sentence]:
    lanes, most = (
        measured(profile, "pcie_link_lanes", counter=f"pcie_width{end}", device=name) for end in ("", "_max")
    )
    said = []
    if lanes is not None and most is not None and lanes.value < most.value:
        text = f"The PCIe link of device {name} has {{0}} of {{1}}: its slot, riser or board may give no more."
        said.append(say(text, lanes, most))
    own, top = (
        measured(profile, "pcie_link_generation", counter=f"pcie_generation{end}", device=name, loaded=1)
        for end in ("", "_max")
    )
    if own is not None and top is not None and own.value < top.value:
        said.append(say(f"Under load the PCIe link of device {name} is of generation {{0}} of {{1}}.", own, top))
    return said


@check(
    *("computation.device_instances", "Instances of devices by samples", "How busy are the parts of a split device?"),
    from_records="samples",
)
def device_instances(profile: Profile) -> Check | None:
    """The activity of each instance of devices that are split (MIG)."""
    view = counter_view(profile)
    places = [] if view is None else _instances(view)
    said = [each for device, part in places[:SHOWN] if (each := _used(profile, device, part)) is not None]
    if not said:
        return None
    more = [say(f"And {len(places) - SHOWN} more instances.")] if len(places) > SHOWN else []
    return symptom(*said, *more, say("Each figure is a share of the instance, not of the whole device."))


def _instances(view: CounterView) -> list[tuple[int, str]]:
    """Device and name of each instance, of samples of one host in one file."""
    samples = view.records.samples
    own = samples[samples["part"].str.startswith(INSTANCE).to_numpy(dtype=bool)]
    if own.empty or any(own[name].nunique() > 1 for name in ("file", "host")):
        return []
    places = own[["device", "part"]].drop_duplicates().sort_values(["device", "part"])
    return list(zip(places["device"].astype(int), places["part"].astype(str), strict=True))


def _used(profile: Profile, device: int, part: str) -> Sentence | None:
    facts = {
        words: fact
        for counter, words in SHARES.items()
        if (fact := measured(profile, "device_part_pct", counter=counter, device=device, part=part)) is not None
    }
    if not facts:
        return None
    listed = ", ".join(words.format(f"{{{at}}}") for at, words in enumerate(facts))
    return say(f"Instance {{n0}} of device {device}: {listed}.", *facts.values(), names=(part,))
