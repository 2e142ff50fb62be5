"""Does the step wait for data on its way to the device?"""

from __future__ import annotations

from tools.analyzers.overlap.idle import removal
from tools.analyzers.support.answers import affected, clean, confidence, found, measure_ranks, say, values, worst_of
from tools.analyzers.support.changes import shortened_on
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Finding
from tools.metrics.io import upload_rows
from tools.metrics.registry import measure
from tools.views.blocking import upload_calls
from tools.views.profile import Profile


@check(
    *("io.upload", "Host-to-device copies", "Does the step wait for copies to the device?"),
    causes=("slow_data_fetching",),
    mechanisms=("pageable_copy", "no_prefetch"),
    needs=(Need.DEVICE,),
)
def uploads(profile: Profile) -> Check:
    """Host-to-device copies that run while nothing computes, and host time spent preparing them."""
    ranks = [view.rank.rank for view in profile.ranks if view.rank.has_device]
    shares = measure_ranks(profile, ranks, "upload_exposed_pct")
    worst = worst_of(values(shares))
    share = shares[worst]
    amount = measure(profile, "upload_exposed_ms", rank=worst, statistic="median")
    prepared = measure(profile, "device_idle_ms", rank=worst, reason="upload", statistic="median")
    longest = measure(profile, "device_idle_ms", rank=worst, reason="upload", statistic="max")
    chosen = affected(values(shares), profile.thresholds["upload_pct"])
    if not chosen:
        text = (
            "Copies to the device that nothing hides take {0} of the step; preparing pageable ones takes another {1}"
            " in the median step and {2} in the worst."
        )
        return clean(say(text, share, prepared, longest))
    # Prefetched copies overlap with kernels and are gone from the path; cautiously half of their time stays.
    copies = shortened_on(profile, chosen, upload_rows, 0.0)
    pageable = bool(len(upload_calls(profile, worst)))
    text = "Copies to the device run for {0} of the median step ({1}) while nothing computes" + (
        ", and the host blocks in them because their memory is pageable." if pageable else "."
    )
    return found(
        Finding(
            cause="slow_data_fetching",
            mechanism="pageable_copy" if pageable else "no_prefetch",
            claim=say(text, amount, share),
            confidence=confidence((share.value, profile.thresholds["upload_pct"]), at_most=0.85),
            ranks=chosen,
            steps=share.steps,
            change=(*copies, *removal(profile, chosen, "upload", 0.0, 0.5)),
            details=(say("Preparing pageable copies keeps the device idle for {0} in the median step.", prepared),),
            disproved_by="the step is as long with batches that already lie on the device",
            signals=("host-to-device copies on the critical path",)
            + (("pageable host-to-device copies on the critical path",) if pageable else ()),
        ),
    )
