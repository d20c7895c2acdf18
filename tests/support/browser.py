"""Headless Chromium, driven by the DevTools protocol over pipes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.conftest import skip_or_fail

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_chromium() -> str:
    """Return the program, or skip the test; in CI, where it must be installed, fail."""
    found = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    return found or skip_or_fail("Chromium is not installed (Debian: chromium)")


class Browser:
    """A browser with one page.

    Attributes:
        messages: Texts of the console and of the log of the page, such as violations of its policy.
        requests: Addresses that the page loaded.
    """

    def __init__(self, profile: Path) -> None:
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.scripts = 0
        self._last = 0
        self._buffer = b""
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def use_pipes() -> None:  # Chromium reads from descriptor 3 and writes to 4
            ends = os.dup(to_browser), os.dup(from_browser)
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [
                find_chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                "--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={profile}",
            ],
            preexec_fn=use_pipes,  # noqa: PLW1509  # it only copies descriptors
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Debugger"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:  # noqa: PYI034  # it has no subclasses
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, path: Path, width: int = 1280, height: int = 900, *, dark: bool = False) -> None:
        """Open a file in a window of a size, and wait until it is loaded."""
        self.messages.clear()
        self.requests.clear()
        self.scripts = 0
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.as_uri())
        while self._receive().get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser ended"
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Log.entryAdded":
                self.messages.append(parameters["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self.messages.append(str(parameters["args"]))
            case "Runtime.exceptionThrown":
                self.messages.append(str(parameters["exceptionDetails"]))
            case "Page.javascriptDialogOpening":
                self.messages.append(f"dialog: {parameters['message']}")
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Debugger.scriptParsed" if parameters.get("url"):
                self.scripts += 1
