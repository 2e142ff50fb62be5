"""Where a job's output may state what an answer declines: the first line with words of the topic and a figure."""

from __future__ import annotations

from hermes_agent.questions.discussion import Discussion
from tools.run.recorded.job_log import Topic


def may_state(discussion: Discussion, topic: Topic) -> str:
    """A sentence that names the line; empty without a job's output or such a line."""
    log = discussion.profile().run.job_log
    found = None if log is None else next((each for each in log.named_lines if each.topic == topic), None)
    if log is None or found is None:
        return ""
    place = f" of {log.files[found.file]}" if len(log.files) > 1 else ""
    return f"Line {found.line}{place} (`{found.words}`) may state it, in a form that is not read."
