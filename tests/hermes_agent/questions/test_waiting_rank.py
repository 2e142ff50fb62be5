"""A rank that waits: what it waits for, and which rank causes it."""

from __future__ import annotations

from pathlib import Path

from hermes_agent.config.settings import Settings
from hermes_agent.demo.data import demo_run
from hermes_agent.model.request import Request
from hermes_agent.session import Session


def test_the_waiting_rank_is_not_blamed_and_the_late_one_is_named(tmp_path: Path, own_cache: Path) -> None:
    settings = Settings.load(tmp_path, {"HERMES_DX_CACHE_DIR": str(own_cache)})
    with Session(Request(paths=(demo_run(),)), settings) as session:
        session.diagnose(lambda _: None)
        text = session.ask("why is rank 0 waiting?", lambda _: None).text
    assert "its largest part is exposed communication" in text
    assert "a symptom of heavy data transforms on rank 1" in text
    assert "No cause was found on it alone" in text
