"""By NCCL's own output: over which network do collectives go?"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tools.analyzers.support.answers import clean, found, say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Sentence
from tools.metrics.recorded.job_log import largest_communicator
from tools.metrics.recorded.repeated_lines import nccl_warning, nccl_warnings
from tools.metrics.registry import measure
from tools.run.recorded.job_log import NO_HEAD, JobLog, NcclFacts
from tools.views.profile import Profile

NO_COST = "what another setting would save cannot be read from a log"
SOCKET, ADAPTER, DIRECT = "NET/Socket", "NET/IB", "NET/IB/GDRDMA"
OFF = re.compile(r"0|(?:false|no|off)\Z", re.I)
ON = re.compile(r"[1-9]|(?:true|yes|on)\Z", re.I)
CHOSEN = "NCCL chose TCP sockets as its network: they carry what goes between hosts, and nothing on a single host."
SHOWN_REASONS = 3
SWITCHED_OFF, ALGORITHM_FORCED = "transport_disabled", "algorithm forced by environment"
SEPARATE_TESTS = (
    "{n0} and {n1} each have their own rank 0: these are %s tests that run side by side, none between hosts, as of "
    "nccl-tests built without MPI (`make MPI=1`)."
)
# Bytes of the largest row of nccl-tests from which on it may show bandwidth: a link of 1 GB/s carries 64 KiB in 65 us,
# as long as the latency of a collective over a network; below that the time is latency on any faster link.
SHOWS_BANDWIDTH = 1 << 16


@dataclass(frozen=True)
class Forced:
    """A variable of NCCL that takes a choice away from it."""

    name: str
    mechanism: str
    values: re.Pattern[str]

    @property
    def signal(self) -> str:
        """The sign of the cause that the variable is."""
        return "transport switched off by environment" if self.mechanism == SWITCHED_OFF else ALGORITHM_FORCED


CHANNEL_LIMITS = ("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS")
FORCED = (
    Forced("NCCL_ALGO", "algorithm_override", re.compile(r".")),
    Forced("NCCL_PROTO", "algorithm_override", re.compile(r".")),
    Forced("NCCL_MAX_NCHANNELS", "algorithm_override", re.compile(r"\d")),
    Forced("NCCL_MAX_CTAS", "algorithm_override", re.compile(r"\d")),
    Forced("NCCL_P2P_DISABLE", SWITCHED_OFF, ON),
    Forced("NCCL_SHM_DISABLE", SWITCHED_OFF, ON),
    Forced("NCCL_IB_DISABLE", "socket_fallback", ON),
    Forced("NCCL_TOPO_FILE", "topology_file", re.compile(r".")),
)


@check(
    *("communication.library_log", "Network by NCCL's output", "Does NCCL's own output show a slow network path?"),
    causes=("network_configuration",),
    mechanisms=("socket_fallback", "no_gpu_direct", "algorithm_override", "transport_disabled", "topology_file"),
    from_records="output",
)
def library_log(profile: Profile) -> Check | None:
    """Sockets between hosts, adapters without GPUDirect, settings that take a choice from NCCL."""
    log = profile.run.job_log
    if log is None or not (log.nccl.lines or log.nccl.settings or len(log.comm_tests)):
        return None
    known = (_sockets(profile, log), _no_direct(profile, log), _few_channels(profile, log), _no_topology(profile, log))
    findings = [each for each in known if each is not None]
    support = _path(profile, log)
    named = {name for each in findings for name in each.claim.names}
    findings += [each for each in _forced(profile, log.nccl) if named.isdisjoint(each.claim.names)]
    if findings:
        return replace(found(*findings), support=tuple(support))
    if ADAPTER in transports(log) and DIRECT not in transports(log):
        return symptom(*support, say("None of the connections over adapters uses GPUDirect RDMA."))
    if not support and _chose_sockets(log):
        chosen = say(CHOSEN)
        return symptom(chosen, *_reasons(log))
    return clean(*support) if support else None


def transports(log: JobLog) -> set[str]:
    """The transports that any communicator uses."""
    return {kind for each in log.nccl.connected for kind in each.transports}


def _sockets(profile: Profile, log: JobLog) -> Finding | None:
    """TCP between hosts: by the connections, or where the log ends before these by the network that NCCL chose."""
    used = transports(log)
    if SOCKET in used:
        claim = say(
            "NCCL connects ranks over TCP sockets: {0}.", measure(profile, "nccl_connections", transport=SOCKET)
        )
    elif not used and _chose_sockets(log) and len(log.nccl.hosts) > 1:
        claim = say("NCCL chose TCP sockets as the network between hosts {n0} and {n1}.", names=log.nccl.hosts[:2])
    elif not used and (others := _next_to_sockets(log)):
        claim = say("NCCL chose TCP sockets as the network in some processes, and {n0} in others.", names=others[:1])
    else:
        return None
    claim = _with_reason(claim, log)
    over = not used or not used.isdisjoint((ADAPTER, DIRECT))
    return Finding(
        cause="network_configuration",
        mechanism="socket_fallback",
        claim=claim,
        confidence=profile.thresholds["log_mixed_sockets_confidence" if over else "log_sockets_confidence"],
        impact_ms=0.0,
        impact_method=NO_COST,
        details=_reasons(log),
        disproved_by="the hosts have no faster network than the one that the sockets use",
        signals=("NET/Socket in the log",),
    )


def _chose_sockets(log: JobLog) -> bool:
    return {each.value for each in log.nccl.network} == {"Socket"}


def _next_to_sockets(log: JobLog) -> tuple[str, ...]:
    """The other networks of a job of which some processes chose sockets; () where none did."""
    chosen = [each.value for each in log.nccl.network]
    return tuple(each for each in chosen if each != "Socket") if "Socket" in chosen else ()


def _with_reason(claim: Sentence, log: JobLog) -> Sentence:
    """The claim with the first adapter or plug-in that NCCL tried before in vain."""
    for tried in log.nccl.fallbacks[:1]:
        text = f"{claim.template.removesuffix('.')}; before that it reports {{n{len(claim.names)}}}."
        return replace(claim, template=text, names=(*claim.names, tried.value))
    return claim


def _reasons(log: JobLog) -> tuple[Sentence, ...]:
    """The adapters and plug-ins that NCCL tried before it took another network."""
    tried = log.nccl.fallbacks[:SHOWN_REASONS]
    listed = ", ".join(f"{{n{at}}}" for at in range(len(tried)))
    return (say(f"Before that it reports {listed}.", names=tuple(each.value for each in tried)),) if tried else ()


def _no_direct(profile: Profile, log: JobLog) -> Finding | None:
    """Adapters that NCCL says it uses without GPUDirect RDMA, and connections over them."""
    used, off = transports(log), log.nccl.gpu_direct_off
    if not off or ADAPTER not in used or DIRECT in used:
        return None
    count = measure(profile, "nccl_connections", transport=ADAPTER)
    return Finding(
        cause="network_configuration",
        mechanism="no_gpu_direct",
        claim=say(
            "GPUDirect RDMA is off for {n0}, and ranks connect over adapters without it: {0}.",
            count,
            names=(off[0].value,),
        ),
        confidence=profile.thresholds["log_no_gpu_direct_confidence"],
        impact_ms=0.0,
        impact_method=NO_COST,
        disproved_by="the steps are as long once the log shows GDRDMA in these connections",
        signals=("GDR disabled",),
    )


FEW = "NCCL uses only {0} between the devices of one host"
NVLINK = "NVL"
P2P = "P2P"


def _few_channels(profile: Profile, log: JobLog) -> Finding | None:
    """One or two channels between devices of one host that NVLink joins, or may join."""
    largest, limits = largest_communicator(log), profile.thresholds
    if largest is None or largest.channels is None or largest.channels > limits["few_nccl_channels"]:
        return None
    if len({host for host, _, _ in largest.processes}) != 1 or len(largest.processes) < largest.size:
        return None
    joined = NVLINK in largest.links
    if not joined and (largest.links or set(largest.transports) != {P2P}):
        return None
    forced = next((name for name in CHANNEL_LIMITS if name in log.nccl.settings), "")
    text = f"{FEW}, which NVLink joins" if joined else f"{FEW}: few if NVLink joins them, usual over PCIe"
    text += "; {n0} is set by the environment." if forced else "."
    return Finding(
        cause="network_configuration",
        mechanism="algorithm_override" if forced else None,
        claim=say(text, measure(profile, "nccl_channels"), names=(forced,) if forced else ()),
        confidence=limits["few_nccl_channels_confidence" if joined else "few_nccl_channels_unsure_confidence"],
        impact_ms=0.0,
        impact_method=NO_COST,
        disproved_by="nccl-tests is as fast with more channels (`NCCL_MIN_NCHANNELS`)",
        signals=("few channels in the log",),
    )


def _no_topology(profile: Profile, log: JobLog) -> Finding | None:
    """A topology file that NCCL was to use and could not open."""
    for each in log.nccl.unread_topology[:1]:
        return Finding(
            cause="network_configuration",
            mechanism="topology_file",
            claim=say("NCCL could not open the topology file {n0} and goes on without it.", names=(each.value,)),
            confidence=profile.thresholds["log_forced_setting_confidence"],
            impact_ms=0.0,
            impact_method=NO_COST,
            disproved_by="the steps are as long once the file is there, or `NCCL_TOPO_FILE` is not set",
            signals=("topology file missing",),
        )
    return None


def _forced(profile: Profile, nccl: NcclFacts) -> list[Finding]:
    return [
        Finding(
            cause="network_configuration",
            mechanism=each.mechanism,
            claim=say("{n0} is set by the environment, which takes a choice from NCCL.", names=(each.name,)),
            confidence=profile.thresholds["log_forced_setting_confidence"],
            impact_ms=0.0,
            impact_method=NO_COST,
            disproved_by="the steps are as long without the setting",
            signals=(each.signal,),
        )
        for each in FORCED
        if (stated := nccl.settings.get(each.name)) is not None
        and not (each.mechanism == "topology_file" and nccl.unread_topology)
        and each.values.match(stated.value)
        and not (each.values is ON and OFF.match(stated.value))
    ]


def _path(profile: Profile, log: JobLog) -> list[Sentence]:
    """Which connections and channels NCCL reports."""
    kinds = sorted(transports(log))
    counts = [measure(profile, "nccl_connections", transport=kind) for kind in kinds]
    listed = ", ".join(f"{{{at}}} over {{n{at}}}" for at in range(len(kinds)))
    said = [say(f"NCCL reports {listed}.", *counts, names=tuple(kinds))] if kinds else []
    if (channels := measured(profile, "nccl_channels")) is not None:
        said.append(say("Its largest communicator has {0}.", channels))
    if (paths := measured(profile, "nccl_path_bandwidth")) is not None:
        said.append(say("By its topology a path to another device or to an adapter has {0} at most.", paths))
    return said + ([_tested(profile, log), *_without_head(log), *_separate(log)] if len(log.comm_tests) else [])


def _separate(log: JobLog) -> list[Sentence]:
    """That the rows are of tests on single hosts, where each of these lists a rank 0 of its own."""
    hosts = tuple(dict.fromkeys(each.value for each in log.test_starts))
    count = "two" if len(hosts) == 2 else f"{len(hosts)}"
    return [say(SEPARATE_TESTS % count, names=hosts[:2])] if len(hosts) > 1 else []


NO_HEAD_SAID = (
    "The head of the table is not in the text: the columns are those of nccl-tests, as size over time gives the "
    "algorithm's bandwidth in each row; which collective was tested, and between which devices, is not stated."
)


def _without_head(log: JobLog) -> list[Sentence]:
    """That rows were read without their head."""
    return [say(NO_HEAD_SAID)] if (log.comm_tests["kind"] == NO_HEAD).any() else []


def _tested(profile: Profile, log: JobLog) -> Sentence:
    """What nccl-tests reaches; of small messages alone the time, which is latency and shows no bandwidth."""
    largest = int(log.comm_tests["size_bytes"].max())
    if largest < SHOWS_BANDWIDTH:
        in_place = int(not (~log.comm_tests["in_place"] & (log.comm_tests["size_bytes"] == largest)).any())
        took = measure(profile, "library_time_ms", size_bytes=largest, in_place=in_place)
        text = f"In nccl-tests the largest row is of {largest} bytes: one collective takes {{0}}, which is latency;"
        return say(f"{text} rows of large messages would show the bandwidth.", took)
    mean, best = (measure(profile, "library_bandwidth", statistic=each) for each in ("mean", "max"))
    return say("In nccl-tests the bus bandwidth is {0} on average over the printed sizes, {1} at most.", mean, best)


@check(
    *("communication.library_warnings", "Warnings of NCCL", "Does NCCL warn of something, and how often?"),
    from_records="output",
)
def library_warnings(profile: Profile) -> Check | None:
    """NCCL's warnings, each once with how many lines hold it, and how many an hour where these state times."""
    log = profile.run.job_log
    if log is None or not log.nccl.warnings:
        return None
    kinds = len(nccl_warnings(log))
    said = [_repeated(profile, log, place) for place in range(1, min(kinds, SHOWN_REASONS) + 1)]
    more = [say(f"And {kinds - SHOWN_REASONS} other warnings.")] if kinds > SHOWN_REASONS else []
    return symptom(*said, *more)


def _repeated(profile: Profile, log: JobLog, place: int) -> Sentence:
    count, rate = (measured(profile, f"nccl_warning{name}", place=place) for name in ("_lines", "s_per_h"))
    often = "" if rate is None else ", {1}"
    facts = [each for each in (count, rate) if each is not None]
    return say(f"NCCL warns in {{0}}{often}: {{n0}}.", *facts, names=(nccl_warning(log, place)[0].text,))
