"""Where the host of a rank is by sampled stacks, added to the causes and leads that name this rank alone."""

from __future__ import annotations

from dataclasses import replace

from tools.findings import Finding, Sentence
from tools.judgement.lead import Lead
from tools.metrics.recorded.host_stacks import sampled_frames
from tools.metrics.registry import measure
from tools.run.program_frames import short_frame
from tools.views.profile import Profile

OF_RANK = ("straggler", "slow_device")  # causes that say which rank is late, and not what it does
MARK = "the sampled stacks of rank"
MAJOR_PCT = 30.0  # a judgement: in less of its samples a thread is nowhere in particular


def placed_finding(profile: Profile, finding: Finding) -> Finding:
    """The finding with where the host of its only rank is, if it says which rank is late."""
    if finding.cause not in OF_RANK or len(finding.ranks) != 1:
        return finding
    return replace(finding, claim=_with_place(profile, finding.ranks[0], finding.claim))


def placed_lead(profile: Profile, lead: Lead) -> Lead:
    """The same of a lead on a part of one rank that is not computation; of a rank that blocks, one stack is stated
    as well."""
    if len(lead.place.ranks) != 1 or lead.place.part == "compute" or MARK in lead.claim.template or lead.place.frame:
        return lead
    if lead.place.part == "step" and not _agreed(profile):
        return lead
    return replace(lead, claim=_with_place(profile, lead.place.ranks[0], lead.claim, one_moment=not lead.impact_ms))


def _agreed(profile: Profile) -> bool:
    """Whether the training threads of all sampled ranks are mostly in one function: that is where the step is."""
    if profile.run.host_stacks is None:
        return True
    first = sampled_frames(profile).groupby("rank")["name"].first()
    return int(first.nunique()) == 1


def _with_place(profile: Profile, rank: int, claim: Sentence, one_moment: bool = False) -> Sentence:
    stacks = profile.run.host_stacks
    if stacks is None or rank not in stacks.ranks:
        return claim
    table, count = sampled_frames(profile), measure(profile, "stack_samples", rank=rank)
    name = str(table.loc[table["rank"] == rank, "name"].iloc[0])
    names = (*claim.names, short_frame(name))
    place = f"{{n{len(claim.names)}}}"
    if count.value <= 1:
        said = f" At one moment, by {MARK} {rank}, its training thread was in {place}."
        return replace(claim, template=claim.template + said, names=names) if one_moment else claim
    share = measure(profile, "frame_share_pct", name=name, rank=rank)
    if share.value < MAJOR_PCT or count.value < profile.thresholds["fewest_stack_samples"]:
        return claim
    said = f" By {MARK} {rank} its training thread is in {place} in {{{len(claim.facts)}}} of the samples."
    return replace(claim, template=claim.template + said, facts=(*claim.facts, share), names=names)
