"""Links by what tools report of them: paths between devices, tests of bandwidth and latency, ports of adapters."""

from __future__ import annotations

import re
from collections import Counter

from tools.analyzers.support.answers import say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Sentence
from tools.metrics.registry import measure
from tools.views.counters import CounterView, counter_view
from tools.views.profile import Profile

PATHS = {
    "NV": "NVLink ({n0})",
    "PIX": "one PCIe switch ({n0})",
    "PXB": "several PCIe switches ({n0})",
    "PHB": "PCIe and the host bridge of a processor ({n0})",
    "NODE": "PCIe and several host bridges of one NUMA node ({n0})",
    "SYS": "PCIe and the link between processors ({n0})",
}  # by the legend of nvidia-smi topo -m
KIND = re.compile(r"(NV|[A-Z]+)")
MOMENT = "It is a test of the links at one moment, without the training: what a step loses to them is not in it."
PATHS_ONLY = "Which of these paths the training uses, and what they reach, is not in it."
NO_GAIN = 1.2  # times the bandwidth without P2P: less is no gain
ENABLED, DISABLED = "unidirectional, P2P enabled:", "unidirectional, P2P disabled:"
SHOWN = 4


@check(
    *("communication.link_reports", "Reports of links", "What do tests and states of links show?"),
    from_records="samples",
)
def link_reports(profile: Profile) -> Check | None:
    """Ports that are down or slower than the others, tests between devices and hosts, and the topology."""
    view = counter_view(profile)
    if view is None:
        return None
    tests = [*_between_devices(profile, view), *_between_hosts(profile, view)]
    said = [*_ports(profile, view), *tests, *([say(MOMENT)] if tests else []), *_topology(profile, view)]
    return symptom(*said) if said else None


def _named(view: CounterView, counter: str) -> list[str]:
    return list(dict.fromkeys(view.machine(counter, None)["part"].astype(str)))


def _ports(profile: Profile, view: CounterView) -> list[Sentence]:
    """The active ports at their rates, slower ones first, and those that are not active."""
    states = view.machine("link_active", None)
    if states.empty:
        return []
    down = list(dict.fromkeys(states[states["value"] == 0.0]["part"].astype(str)))
    up = [each for each in dict.fromkeys(states["part"].astype(str)) if each not in down]
    rates = {port: fact for port in up if (fact := measured(profile, "port_rate_gbit_per_s", port=port)) is not None}
    said = []
    if rates:
        slow, fast = min(rates, key=lambda each: rates[each].value), max(rates, key=lambda each: rates[each].value)
        if rates[slow].value < rates[fast].value:
            text = "Port {n0} runs at {0}, port {n1} at {1}: where both are of one kind, the first agreed on less."
            said.append(say(text, rates[slow], rates[fast], names=(slow, fast)))
        else:
            text = f"Each of the {len(rates)} active ports runs at" if len(rates) > 1 else "Port {n0} is active at"
            said.append(say(f"{text} {{0}}.", rates[slow], names=(slow,) if len(rates) == 1 else ()))
    shown = ", ".join(f"{{n{place}}}" for place in range(min(len(down), SHOWN)))
    more = f" and {len(down) - SHOWN} more" if len(down) > SHOWN else ""
    if down:
        text = f"Port{'s' * (len(down) > 1)} {shown}{more} {'are' if len(down) > 1 else 'is'} not active."
        said.append(say(text, names=tuple(down[:SHOWN])))
    return said


def _between_devices(profile: Profile, view: CounterView) -> list[Sentence]:
    """Of p2pBandwidthLatencyTest the bandwidth between two devices, with direct access and without."""
    tests = [each for each in (ENABLED, DISABLED) if any(part.startswith(each) for part in _tested(view))]
    said = []
    for test in tests:
        low, high = (measure(profile, "bandwidth_test_gb_per_s", test=test, statistic=each) for each in ("min", "max"))
        own = view.machine("tested_bandwidth_bytes_per_s", None)
        own = own[own["part"].str.startswith(test).to_numpy(dtype=bool)]
        pair = str(own.sort_values("value", kind="stable")["part"].iloc[0]).partition(": ")[2]
        how = f"with direct access {test.rpartition(' ')[2].removesuffix(':')}"
        text = f"One way, {how}, two devices reach {{0}} at least"
        if low.value == high.value:
            said.append(say(f"{text}.", low))
        else:
            said.append(say(f"{text} ({{n0}}) and {{1}} at most.", low, high, names=(pair,)))
    if len(tests) == 2:
        direct, copied = (each.facts[-1].value for each in said)
        if direct * NO_GAIN < copied:
            said.append(say("Direct access is slower than copies through memory of the host."))
        elif direct < NO_GAIN * copied:
            said.append(say("Direct access brings no gain, as where devices have none and copies go through the host."))
    return said


def _tested(view: CounterView) -> list[str]:
    return [*_named(view, "tested_bandwidth_bytes_per_s"), *_named(view, "tested_latency_us")]


def _between_hosts(profile: Profile, view: CounterView) -> list[Sentence]:
    """Of perftest the bandwidth and latency of the largest message of each test."""
    said = []
    for metric, counter in (
        ("bandwidth_test_gb_per_s", "tested_bandwidth_bytes_per_s"),
        ("latency_test_us", "tested_latency_us"),
    ):
        last = {part.partition(": ")[0]: part for part in _named(view, counter) if part.endswith(" bytes")}
        for test, part in list(last.items())[:SHOWN]:
            fact = measure(profile, metric, test=part)
            text = f"The test {{n0}} reaches {{0}} with messages of {part.partition(': ')[2]}."
            said.append(
                say(text if metric.endswith("per_s") else text.replace("reaches", "takes"), fact, names=(test,))
            )
    return said


def _topology(profile: Profile, view: CounterView) -> list[Sentence]:
    """How many pairs of devices are joined by what."""
    counted = Counter(part.split(" ")[0] for part in _named(view, "topology_path"))
    said = []
    for path, _ in counted.most_common():
        kind = KIND.match(path)
        words = PATHS.get(kind[1] if kind is not None else "", "{n0}")
        pairs = measure(profile, "topology_pairs", path=path)
        said.append(
            say(f"{{0}} of GPUs {'is' if pairs.value == 1 else 'are'} joined by {words}.", pairs, names=(path,))
        )
    return [*said, say(PATHS_ONLY)] if said else []
