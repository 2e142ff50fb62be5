"""Answers of checks under a name of their own."""

from __future__ import annotations

from tools.findings import Check, Finding, Sentence


def found(name: str, *findings: Finding) -> Check:
    """The check found something."""
    return Check(name, "found", findings=findings)


def clean(name: str, *support: Sentence) -> Check:
    """The check found nothing wrong."""
    return Check(name, "clean", support=support)
