"""A headless Chromium for tests of pages: what a page shows, what it logs, what it asks the network for.

It is driven through two pipes (the DevTools protocol, messages of JSON that end in a zero byte), so nothing but the
browser itself is needed.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE = 60.0  # seconds for one answer, on a busy machine
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--no-default-browser-check", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


def find_browser() -> str | None:
    """The program, if it is installed."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


@dataclass
class Seen:
    """A page as it was loaded. ``complaints``: console errors and warnings, exceptions, failed requests."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


class Browser:
    """A running browser with one page."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out, self._in = to_browser, from_browser
        self._number, self._buffer = 0, b""
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def load(self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> Seen:
        """Opens a file in a window of that size, and waits until everything in it is there."""
        self._events.clear()
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Page.navigate", url=path.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._events.append(self._read())
        self.evaluate("Promise.all([...document.images].map(image => image.decode().catch(() => 0)))")
        return self._seen()

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def screenshot(self) -> bytes:
        """The whole page, however long, as PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"])

    def _seen(self) -> Seen:
        seen = Seen()
        for event in self._events:
            facts = event.get("params", {})
            if event["method"] == "Network.requestWillBeSent":
                seen.requests.append(facts["request"]["url"])
            elif event["method"] == "Network.loadingFailed":
                seen.complaints.append(facts["errorText"])
            elif event["method"] == "Runtime.exceptionThrown":
                seen.complaints.append(json.dumps(facts["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and facts["entry"]["level"] in ("error", "warning"):
                seen.complaints.append(facts["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning", "assert"):
                seen.complaints.append(json.dumps(facts["args"]))
        return seen

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self._events.append(answer)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the browser said nothing for {PATIENCE:g} seconds")
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise EOFError("the browser has gone")
            self._buffer += piece
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        return message


@contextmanager
def running_browser(program: str, profile: Path) -> Iterator[Browser]:
    """Starts ``program`` with an empty ``profile`` folder, and ends it."""
    pipes = [os.pipe(), os.pipe()]
    # The browser reads from 3 and writes to 4; numbers from 10 on cannot be in the way of these.
    theirs = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (pipes[0][0], pipes[1][1])]
    arguments = [program, *OPTIONS, f"--user-data-dir={profile}"]
    command = f"import os; os.dup2({theirs[0]}, 3); os.dup2({theirs[1]}, 4); os.execv({program!r}, {arguments!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", command],
        pass_fds=theirs,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for fd in (pipes[0][0], pipes[1][1], *theirs):
        os.close(fd)
    try:
        yield Browser(pipes[0][1], pipes[1][0])
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)
        os.close(pipes[0][1])
        os.close(pipes[1][0])
