"""Do some steps evaluate the model beside training it?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, say, worst_of
from tools.analyzers.support.changes import shortened
from tools.analyzers.support.figures import measure_all
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding
from tools.intervals import intersect, length
from tools.metrics.registry import measure
from tools.views.host.phases import Evaluation, evaluation, forward_math
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.change import Change, Scale

ONCE_CAP, SEVERAL_CAP = 0.6, 0.9  # seen in one step, its frequency is not known
OTHER_CAP = 0.65  # without a data loader in it the same may be generation or a rollout
RECORDED = "Gradients are recorded in them and never used: `torch.inference_mode()` or `torch.no_grad()` avoids that."
HALVED = 0.5  # cautiously: evaluating half as often


@check(
    *("overlap.evaluation", "Evaluation inside the steps", "Do some steps evaluate the model as well?"),
    family="parallel",
    causes=("evaluation_stall",),
)
def evaluation_stall(profile: Profile) -> Check | Finding:
    """Steps that hold forward passes for no backward pass, where others hold none."""
    ranks = profile.run.rank_numbers
    known = [rank for rank in ranks if len(forward_math(profile.rank(rank))[0])]
    if not known:
        return cannot_answer(
            "no forward operators with sequence numbers are recorded on the host",
            "a trace with ProfilerActivity.CPU and record_shapes=True",
        )
    found = [rank for rank in known if evaluation(profile, rank) is not None]
    if not found:
        return clean(say("No step holds forward passes without a backward pass that the other steps lack."))
    shares = {rank: 100.0 * measure(profile, "evaluation_ms", rank=rank).value / profile.mean_step_ms for rank in found}
    worst, limit = worst_of(shares), profile.thresholds["noted_pct"]
    cost, each, steps = measure_all(profile, "evaluation_ms", "evaluation_each_ms", "evaluation_steps", rank=worst)
    if shares[worst] < limit:
        return clean(say("Evaluation inside the steps takes {0} per step.", cost))
    chosen = affected(shares, limit)
    moments = evaluation(profile, worst)
    text = (
        f"In {{0}} of those recorded the model is evaluated as well: forward passes {_kind(moments)} take {{1}} in"
        " each, {2} per step."
    )
    return Finding(
        cause="evaluation_stall",
        claim=say(text, steps, each, cost),
        confidence=confidence((shares[worst], limit), at_most=_cap(profile, worst)),
        ranks=chosen,
        steps=moments.steps if moments is not None else (),
        details=(say(RECORDED),) if moments is not None and moments.gradients else (),
        change=tuple(scale for rank in chosen for scale in _without(profile, rank)),
        against=(say("Evaluation is wanted work; what can change is how often it runs and on how many batches."),),
        disproved_by="the long steps stay with evaluation turned off",
        signals=("every n-th step far longer with forward work only and no backward",),
    )


def _kind(found: Evaluation | None) -> str:
    forgotten = found is not None and found.gradients
    return "without `torch.no_grad()` and without a backward pass" if forgotten else "without gradients"


def _cap(profile: Profile, rank: int) -> float:
    found, view = evaluation(profile, rank), profile.rank(rank)
    loading = found is not None and length(intersect(view.covered(view.loader_rows), found.moments)) > 0
    return ONCE_CAP if found is None or len(found.steps) == 1 else SEVERAL_CAP if loading else OTHER_CAP


def _without(profile: Profile, rank: int) -> Change:
    """The steps without evaluation: its time on the host and the device work that it launched."""
    view, found = profile.rank(rank), evaluation(profile, rank)
    if found is None:
        return ()
    host = Scale(rank, found.track, found.moments, 0.0, HALVED)
    return (host, *shortened(view, _launched(view, found.moments), 0.0, HALVED))


def _launched(view: RankProfile, moments: np.ndarray) -> np.ndarray:
    """Device work launched inside these moments."""
    links = view.launches
    if links.empty:
        return np.empty(0, dtype=np.int64)
    called = links["call_start_ns"].to_numpy()
    place = np.searchsorted(moments[:, 0], called, side="right") - 1
    inside = (place >= 0) & (called < moments[np.maximum(place, 0), 1])
    return np.sort(links["device_row"].to_numpy()[inside]).astype(np.int64)
