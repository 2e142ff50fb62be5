"""Whether a job is known to be of one process: then no rank waits for another one."""

from __future__ import annotations

from tools.views.profile import Profile


def of_one_process(profile: Profile) -> bool:
    """True where the job states one rank; where nothing states how many, a single trace without any collective."""
    layout = profile.run.layout
    if layout.world_size is not None:
        return layout.world_size == 1
    if not profile.traced or profile.run.traced_count != 1 or layout.groups or layout.backend is not None:
        return False
    return not any(len(view.communication_kernels) or len(view.host_collective_rows) for view in profile.ranks)
