"""By a recorded environment: versions that do not fit, a debug build, the governor, cores that may be used."""

from __future__ import annotations

from collections.abc import Mapping

from tools.analyzers.support.answers import found, say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Sentence
from tools.metrics.registry import measure
from tools.run.recorded.environment import HostEnvironment
from tools.views.profile import Profile

HYPOTHESIS = 0.4  # below what makes a verdict: a limit costs time only where it is reached
WRONG_BUILD = 0.7
NO_COST = "a setting's cost cannot be read from one run"
SLOW_GOVERNORS = ("powersave", "conservative")
COMPARED = ("torch", "cuda_build", "driver", "python")
SHOWN = (("torch", "PyTorch"), ("cuda_build", "CUDA"), ("rocm_build", "ROCm"), ("driver", "driver"), ("gpu", "device"))


@check(
    *("cpu.host_environment", "Versions and limits of the host", "Do versions, limits or modes of the host fit?"),
    causes=("environment_configuration", "cpu_contention"),
    mechanisms=("version_mismatch", "power_governor", "debug_build", "affinity", "cgroup_throttling"),
    from_records="tables",
)
def host_environment(profile: Profile) -> Check | None:
    """What env.json and collect_env state; a limit is a hypothesis, since they do not show whether it is reached."""
    own = profile.run.environments
    if not own:
        return None
    findings = [each for number in range(len(own)) for each in _of(profile, number)]
    findings += _differing(own)
    said = [sentence for each in own[:2] if (sentence := _versions(each)) is not None]
    return found(*findings) if findings else symptom(*said)


def _of(profile: Profile, number: int) -> list[Finding]:
    own = profile.run.environments[number]
    return [each for each in (_build(own), _debug(own), _governor(own), _cores(profile, number)) if each is not None]


def _build(own: HostEnvironment) -> Finding | None:
    """A PyTorch that cannot use the devices of the machine."""
    if own.facts.get("cuda_available") != "False" or not own.number("gpus") or "rocm_build" in own.facts:
        return None
    text = "PyTorch {n0} cannot use the machine's devices ({n1}): CUDA is not available to it."
    names = (own.facts["torch"], own.facts.get("gpu", "GPU"))
    return _finding("version_mismatch", say(text, names=names), WRONG_BUILD, own, "cuda_available")


def _debug(own: HostEnvironment) -> Finding | None:
    if own.facts.get("debug_build") != "True":
        return None
    claim = say("PyTorch {n0} is a debug build.", names=(own.facts.get("torch", ""),))
    return _finding("debug_build", claim, WRONG_BUILD, own, "debug_build")


def _governor(own: HostEnvironment) -> Finding | None:
    governor = own.facts.get("governor", "")
    if governor not in SLOW_GOVERNORS:
        return None
    claim = say("The processor's frequency governor is {n0}.", names=(governor,))
    return _finding("power_governor", claim, HYPOTHESIS, own, "governor")


def _cores(profile: Profile, number: int) -> Finding | None:
    """Fewer cores than the devices' training threads and one helper each."""
    own = profile.run.environments[number]
    devices = max(own.number("gpus") or 1.0, 1.0)
    limits = {each: own.number(each) for each in ("allowed_cores", "quota_cores")}
    tight = {
        name: value
        for name, value in limits.items()
        if value is not None and value < profile.thresholds["cores_per_device"] * devices
    }
    cores = measured(profile, "machine_cores", kind="cores", environment=number)
    if not tight or cores is None or cores.value < profile.thresholds["cores_per_device"] * devices:
        return None
    kind = min(tight, key=lambda name: tight[name])
    may = measure(profile, "machine_cores", kind=kind, environment=number)
    mechanism = "affinity" if kind == "allowed_cores" else "cgroup_throttling"
    how = "is bound to" if kind == "allowed_cores" else "has a quota of"
    return Finding(
        cause="cpu_contention",
        mechanism=mechanism,
        claim=say(f"The training {how} {{0}} of a machine with {{1}}.", may, cores),
        confidence=HYPOTHESIS,
        impact_ms=0.0,
        impact_method=NO_COST,
        disproved_by="the steps are as long with more cores",
        signals=("few cores for the process",),
    )


def _differing(own: tuple[HostEnvironment, ...]) -> list[Finding]:
    """Versions that differ between hosts."""
    for name in COMPARED:
        stated: Mapping[str, str] = {each.facts[name]: each.file for each in own if name in each.facts}
        if len(stated) > 1:
            first, second = sorted(stated)[:2]
            text = "Not all hosts have the same version of {n0}: {n1} ({n2}) and {n3} ({n4})."
            names = (name, first, stated[first], second, stated[second])
            return [_finding("version_mismatch", say(text, names=names), WRONG_BUILD, own[0], name)]
    return []


def _finding(mechanism: str, claim: Sentence, sure: float, own: HostEnvironment, fact: str) -> Finding:
    place = f"{own.file}, line {own.lines[fact]}" if fact in own.lines else own.file
    return Finding(
        cause="environment_configuration",
        mechanism=mechanism,
        claim=claim,
        confidence=sure,
        impact_ms=0.0,
        impact_method=NO_COST,
        details=(say("Stated by {n0}.", names=(place,)),),
        disproved_by="the steps are as long after the change",
        signals=("recorded settings of the host",),
    )


def _versions(own: HostEnvironment) -> Sentence | None:
    known = [(title, own.facts[name]) for name, title in SHOWN if name in own.facts]
    if not known:
        return None
    listed = ", ".join(f"{title} {{n{at}}}" for at, (title, _) in enumerate(known))
    return say(f"Recorded: {listed}.", names=tuple(value for _, value in known))
