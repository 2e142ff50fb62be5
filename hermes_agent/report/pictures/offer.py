"""The pictures that can be asked for, and whether what draws them is installed."""

from __future__ import annotations

from importlib.util import find_spec

from tools.errors import UsageError

NAMES = ("series", "heatmap", "breakdown", "critical_path", "roofline")
DRAWN_BY = ("altair", "jinja2", "vl_convert")
EXTRA = "Pictures and the HTML report need an extra that is not installed: pip install 'hermes-dx[report]'"


def require_extra() -> None:
    """Raise UsageError where the packages of the extra ``report`` are not installed."""
    if any(find_spec(name) is None for name in DRAWN_BY):
        raise UsageError(EXTRA)
