"""The bundled run and its diagnosis, for tests of every form of the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_run
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from hermes_agent.report.files import profile_behind
from hermes_agent.workflow.diagnose import diagnose
from tools.views.profile import Profile


@pytest.fixture(scope="session")
def demo_request(shared_cache: Path) -> Request:
    """The bundled run."""
    return Request((demo_run(),), cache_dir=shared_cache)


@pytest.fixture(scope="session")
def demo(demo_request: Request) -> Diagnosis:
    """Its diagnosis."""
    return diagnose(demo_request, lambda _: None)


@pytest.fixture(scope="session")
def demo_profile(demo_request: Request, demo: Diagnosis) -> Profile:
    """The run itself; nobody changes it."""
    return profile_behind(demo_request, demo)
