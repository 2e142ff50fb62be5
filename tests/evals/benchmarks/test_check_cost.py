from __future__ import annotations

from evals.benchmarks.check_cost import Account, ChargedProfile
from tests.synthetic import run_of
from tools.views.profile import Profile, memoized


@memoized
def shared_view(profile: Profile, rank: int) -> int:
    return rank + 1


def test_what_is_asked_for_inside_is_charged_to_itself() -> None:
    seconds = iter([0.0, 1.0, 4.0, 10.0])
    account = Account(lambda: next(seconds))

    with account.charged("check:a"), account.charged("view"):
        pass

    assert account.seconds == {"view": 3.0, "check:a": 7.0}


def test_a_profile_charges_each_view_once_under_the_name_of_its_function() -> None:
    clock = iter(range(100))
    profile = ChargedProfile(run_of())
    profile.account = Account(lambda: next(clock))

    sums = [profile.memo("check:sum", lambda: shared_view(profile, 1) + shared_view(profile, 2)) for _ in range(2)]

    assert sums == [5, 5]
    assert profile.account.seconds == {f"{__name__}.shared_view": 2, "check:sum": 3}
