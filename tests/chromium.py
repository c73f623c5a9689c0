"""Debian's Chromium without a window, spoken to over its debugging pipe: pages as users see them, and print them."""

import base64
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Queue
from typing import Any, Final, Self

from tests.wait import until

ARGUMENTS: Final = (
    "--headless=new",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
)


class Page:
    """One tab. `errors` are what its console and scripts complained of."""

    def __init__(self, browser: "Chromium", session: str) -> None:
        self._browser, self._session = browser, session
        self.errors: list[str] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol; its answer."""
        return self._browser.call(method, self._session, **parameters)

    def open(self, url: str) -> None:
        """Go there, until all is loaded and its scripts have run."""
        document = self.call("Page.navigate", url=url)["loaderId"]
        until(lambda: self._is_shown(document), f"{url} to load")

    def _is_shown(self, document: str) -> bool:
        """Whether that document is what the tab has by now, and whole: until then the one before it answers."""
        if self.call("Page.getFrameTree")["frameTree"]["frame"]["loaderId"] != document:
            return False
        with suppress(AssertionError):  # for a moment a new document has nowhere to run a script
            return bool(self.value("document.readyState === 'complete'"))
        return False

    def value(self, script: str) -> Any:
        """What an expression gives in the page; fails where it throws."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def width(self, pixels: int) -> None:
        """Make the window that wide."""
        self.call("Emulation.setDeviceMetricsOverride", width=pixels, height=900, deviceScaleFactor=1, mobile=False)

    def media(self, name: str) -> None:
        """Look as on that medium: `print`, or nothing for the screen."""
        self.call("Emulation.setEmulatedMedia", media=name)

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])


class Chromium:
    """The process and its pipe: one command at a time, events told to their pages."""

    def __init__(self, profile: Path) -> None:
        program = shutil.which("chromium")
        assert program, "chromium is missing; on Debian: apt-get install chromium"
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        command = [program, *ARGUMENTS, *sandbox, f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *command],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = os.fdopen(ours_out, "wb", buffering=0), os.fdopen(ours_in, "rb", buffering=0)
        self._number = 0
        self._answers: Queue[dict[str, Any]] = Queue()
        self._pages: dict[str, Page] = {}
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(30)
        self._out.close()
        self._in.close()

    def page(self) -> Page:
        """A new tab, 1,280 pixels wide."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        page.width(1280)
        return page

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """One command; its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        self._out.write(json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while (answer := self._answers.get(timeout=120))["id"] != self._number:
            pass
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _listen(self) -> None:
        rest = b""
        while block := self._in.read(1 << 16):
            *whole, rest = (rest + block).split(b"\0")
            for text in whole:
                self._heard(json.loads(text))

    def _heard(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._answers.put(message)
            return
        page, told = self._pages.get(message.get("sessionId", "")), message["params"]
        if page is None:
            return
        if message["method"] == "Runtime.exceptionThrown":
            page.errors.append(str(told["exceptionDetails"]))
        elif message["method"] == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            page.errors.append(told["entry"]["text"])
        elif message["method"] == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            page.errors.append(str(told["args"]))


@contextmanager
def chromium(profile: Path) -> Iterator[Chromium]:
    """A browser with a profile of its own, ended when done."""
    with Chromium(profile) as browser:
        yield browser
