"""Drives Debian's Chromium, without a window, over its debugging pipe: no port, no other package.

A test opens a page of ours, learns what the browser fetched, complained about and laid out, and may
keep a picture of it.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 60.0  # seconds for one answer; a loaded machine is slow
MEASURE = """(() => {
  const wide = document.documentElement.clientWidth;
  const out = [...document.querySelectorAll('body *')].filter(e => {
    const box = e.getBoundingClientRect();
    return box.width && !e.closest('svg svg, svg *') && (box.right > wide + 1 || box.left < -1);
  }).map(e => e.tagName + '.' + (e.getAttribute('class') || '') + ' ' +
              (e.textContent || '').slice(0, 40));
  return {scroll: document.documentElement.scrollWidth, wide, out: out.slice(0, 10)};
})()"""
UNNAMED = """[...document.querySelectorAll('svg, img')].filter(e =>
  getComputedStyle(e).display !== 'none' && !e.closest('svg svg') &&
  !(e.getAttribute('aria-label') || e.getAttribute('alt'))).length"""


class Browser:
    """One Chromium with one tab. `requests` and `complaints` grow while it runs."""

    def __init__(self, process: subprocess.Popen[bytes], write: int, read: int) -> None:
        self._process = process
        self._write = write
        self._read = read
        self._input = b""
        self._number = 0
        self._session = ""
        self._loaded = False
        self.requests: list[str] = []
        self.complaints: list[str] = []

    def attach(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._session = session
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._input:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._read, 1 << 16) if ready else b""
            if not data:
                raise TimeoutError(f"no answer from the browser (exit {self._process.poll()})")
            self._input += data
        line, _, self._input = self._input.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"].get("text")))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(f"console.{params['type']}")
        elif method == "Page.loadEventFired":
            self._loaded = True

    def call(self, method: str, **params: Any) -> dict[str, Any]:  # noqa: ANN401
        self._number += 1
        request = {"id": self._number, "method": method, "params": params}
        if self._session:
            request["sessionId"] = self._session
        os.write(self._write, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            message = self._message(deadline)
            if message.get("id") == self._number:
                assert "error" not in message, (method, message["error"])
                result: dict[str, Any] = message["result"]
                return result

    def open(self, page: Path, width: int, dark: bool = False) -> None:
        """Loads a file in a window of this width, and waits until it is laid out."""
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=844 if phone else 900,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded = False
        self.call("Page.navigate", url=page.resolve().as_uri())
        deadline = time.monotonic() + PATIENCE
        while not self._loaded:
            self._message(deadline)

    def evaluate(self, script: str) -> Any:  # noqa: ANN401
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def screenshot(self, path: Path) -> None:
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that is gone at the end. Needs `chromium`; the caller checks."""
    program = shutil.which("chromium")
    assert program, "chromium is not installed"
    to_browser, ours_out = os.pipe()
    ours_in, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        wire = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        options = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run"
        process = subprocess.Popen(
            ["bash", "-c", wire, "bash", program, *options.split(), "--remote-debugging-pipe",
             f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        try:
            browser = Browser(process, ours_out, ours_in)
            browser.attach()
            yield browser
        finally:
            os.close(ours_out)  # the end of the pipe ends the browser
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(ours_in)
