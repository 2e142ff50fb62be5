"""A headless Chromium over the WebDriver protocol, to look at reports as a reader does; nothing but the file is opened.

Needs ``chromium`` (or ``google-chrome``) and ``chromedriver`` on the path.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome")
STARTED = re.compile(r"started successfully on port (\d+)")
SWITCHES = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)
LIMIT_S = 30.0


def missing() -> str:
    """What is not installed, "" where nothing is missing."""
    if shutil.which("chromedriver") is None:
        return "chromedriver is not on the path"
    return "" if _chromium() else f"none of {', '.join(NAMES)} is on the path"


def _chromium() -> str:
    return next((found for name in NAMES if (found := shutil.which(name))), "")


class Browser:
    """One page in a browser of its own, with an empty profile."""

    def __enter__(self) -> Self:
        self._profile = tempfile.TemporaryDirectory(prefix="hermes-browser-")
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._driver.stdout is not None
        port = next((found[1] for line in self._driver.stdout if (found := STARTED.search(line))), "")
        self._address = f"http://127.0.0.1:{port}/session"
        options = {"binary": _chromium(), "args": [*SWITCHES, f"--user-data-dir={self._profile.name}"]}
        logs = {"browser": "ALL", "performance": "ALL"}
        asked = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": logs}}
        self._address += f"/{self._send('POST', '', {'capabilities': asked})['sessionId']}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._send("DELETE", "", None)
        finally:
            self._driver.terminate()
            self._driver.communicate(timeout=LIMIT_S)
            self._profile.cleanup()

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> Any:  # noqa: ANN401 - JSON
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._address + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=LIMIT_S) as answer:
            return json.load(answer)["value"]

    def open(self, page: Path, width: int = 1000, height: int = 800, scheme: str = "light") -> None:
        """Show a file in a window of that size, for a reader who prefers light or dark pages."""
        self._devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        self._devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        for address in ("about:blank", page.resolve().as_uri()):  # from one of its own anchors it would not load again
            self._send("POST", "/url", {"url": address})

    def show_as(self, medium: str) -> None:
        """Lay the page out for ``screen`` or ``print``."""
        self._devtools("Emulation.setEmulatedMedia", media=medium)

    def _devtools(self, command: str, **arguments: object) -> Any:  # noqa: ANN401 - JSON
        return self._send("POST", "/goog/cdp/execute", {"cmd": command, "params": arguments})

    def run(self, script: str) -> Any:  # noqa: ANN401 - JSON
        """The value of ``return ...`` in the page."""
        return self._send("POST", "/execute/sync", {"script": script, "args": []})

    def click(self, selector: str) -> None:
        """Click the first element that a CSS selector finds, as a mouse does."""
        found = self._send("POST", "/element", {"using": "css selector", "value": selector})
        self._send("POST", f"/element/{next(iter(found.values()))}/click", {})

    def press_tab(self) -> None:
        """Press the key Tab."""
        for kind in ("keyDown", "keyUp"):
            self._devtools("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)

    def requested(self) -> list[str]:
        """The URLs that opened files requested since the last call, themselves included."""
        entries = [json.loads(each["message"])["message"] for each in self._log("performance")]
        sent = [each["params"] for each in entries if each["method"] == "Network.requestWillBeSent"]
        return [each["request"]["url"] for each in sent if each["documentURL"].startswith("file:")]

    def complaints(self) -> list[str]:
        """What the console of the page says since the last call."""
        return [str(each["message"]) for each in self._log("browser")]

    def _log(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._send("POST", "/se/log", {"type": kind})
        return found

    def screenshot(self) -> bytes:
        """What is seen, as PNG."""
        return base64.b64decode(self._devtools("Page.captureScreenshot", format="png")["data"])
