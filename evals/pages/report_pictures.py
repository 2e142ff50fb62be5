"""The pictures of the report in the docs: ``python -m evals.pages.report_pictures docs``.

The report of the bundled run in Chromium (light, dark, on a phone), and its picture for Slack and papers.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from evals.pages.browser import Browser, missing
from hermes_agent.demo.data import demo_run
from hermes_agent.model.request import Request
from hermes_agent.report.files import profile_behind
from hermes_agent.report.html.page import render_html
from hermes_agent.report.pictures.export import render_png
from hermes_agent.workflow.diagnose import diagnose

VIEWS = {  # name: width, height, preferred colours
    "report_light": (900, 1150, "light"),
    "report_dark": (900, 1150, "dark"),
    "report_phone": (360, 1150, "light"),
}


def main() -> None:
    """Write the pictures into the folder named on the command line."""
    if reason := missing():
        raise SystemExit(f"the report cannot be opened: {reason}")
    folder = Path(sys.argv[1])
    request = Request((demo_run(),))
    diagnosis = diagnose(request, lambda _: None)
    profile = profile_behind(request, diagnosis)
    (folder / "report_picture.png").write_bytes(render_png(diagnosis, profile, "breakdown"))
    with tempfile.TemporaryDirectory(prefix="hermes-report-") as name, Browser() as browser:
        page = Path(name) / "report.html"
        page.write_text(render_html(diagnosis, profile, [demo_run()]), encoding="utf-8")
        for view, (width, height, scheme) in VIEWS.items():
            browser.open(page, width, height, scheme)
            (folder / f"{view}.png").write_bytes(browser.screenshot())


if __name__ == "__main__":
    main()
