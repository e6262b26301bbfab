# SPDX-License-Identifier: MIT
"""Controls headless Chromium through a pair of pipes (the DevTools protocol), with only the standard library.

    with Browser() as b:
        b.size(400, 800)
        b.open("http://127.0.0.1:8080/")
        b.wait("document.documentElement.dataset.drawn")
        b.value("document.title")
        b.screenshot("page.png")

b.complaints has the errors and warnings of the page: from its console, uncaught exceptions, dialogs, and what its
security policy blocked.
"""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
LIMIT_S = 60


def find():
    """The path of the browser; None: not found."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Browser:
    def __init__(self, dark=False):
        self.complaints, self._answers, self._next, self._page = [], {}, 0, None
        self._arrived, self._gone = threading.Condition(), False
        self._directory = tempfile.mkdtemp(prefix="gd-browser-", dir="/tmp")  # the browser's sockets need a short path
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()

        def in_place():
            # The browser reads descriptor 3 and writes descriptor 4. The pipes may have these numbers themselves, so
            # they are moved to higher numbers first.
            reads, writes = os.dup(to_read), os.dup(to_write)
            reads, writes = os.dup2(reads, 20), os.dup2(writes, 21)
            os.dup2(reads, 3), os.dup2(writes, 4)

        self._process = subprocess.Popen(
            [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
             "--remote-debugging-pipe", "--hide-scrollbars", f"--user-data-dir={self._directory}", "about:blank"],
            preexec_fn=in_place, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self._directory, "TMPDIR": self._directory})
        os.close(to_read), os.close(to_write)
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self._attach()
            self.scheme(dark)
        except RuntimeError:
            self._process.kill()
            self._process.wait()
            raise

    def _attach(self):
        """Attaches to the page that the browser opens at its start. The page may not exist yet."""
        self._session = None
        self.send("Target.setDiscoverTargets", discover=True)
        with self._arrived:
            if not self._arrived.wait_for(lambda: self._page or self._gone, LIMIT_S) or not self._page:
                raise RuntimeError("the browser opened no page")
        self._session = self.send("Target.attachToTarget", targetId=self._page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._session = None
        try:
            self.send("Browser.close")
        except RuntimeError:
            pass
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        shutil.rmtree(self._directory, ignore_errors=True)  # processes of the browser may still write there

    def _read(self):
        rest = b""
        while block := os.read(self._in, 1 << 16):
            *messages, rest = (rest + block).split(b"\0")
            for text in messages:
                self._take(json.loads(text))
        with self._arrived:
            self._gone = True
            self._arrived.notify_all()

    def _take(self, message):
        method, params = message.get("method"), message.get("params", {})
        with self._arrived:
            if "id" in message:
                self._answers[message["id"]] = message
            elif method == "Target.targetCreated" and params["targetInfo"]["type"] == "page":
                self._page = self._page or params["targetInfo"]["targetId"]
            elif method == "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                self.complaints.append(str(params["args"]))
            elif method == "Log.entryAdded" and "favicon" not in params["entry"].get("url", ""):
                self.complaints.append(params["entry"]["text"])
            elif method == "Page.javascriptDialogOpening":
                self.complaints.append("a dialog: " + params["message"])
            self._arrived.notify_all()

    def send(self, method, **params):
        self._next += 1
        number, message = self._next, {"id": self._next, "method": method, "params": params}
        if getattr(self, "_session", None):
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        with self._arrived:
            if not self._arrived.wait_for(lambda: number in self._answers or self._gone, LIMIT_S):
                raise RuntimeError(f"no answer to {method} after {LIMIT_S} s")
            if number not in self._answers:
                raise RuntimeError("the browser is gone")
            answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def scheme(self, dark):
        value = "dark" if dark else "light"
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def size(self, width, height):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def open(self, url):
        self.send("Page.navigate", url=url)

    def value(self, expression):
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression):
        """Waits until the expression is true. The page evaluates it at each frame."""
        return self.value(f"""new Promise((done, failed) => {{
            const limit = setTimeout(() => failed(new Error('still false; the page: ' + document.body.innerText)), {LIMIT_S * 900});
            const look = () => {{ let v; try {{ v = ({expression}); }} catch (e) {{ v = false; }}
                if (v) {{ clearTimeout(limit); done(v); }} else requestAnimationFrame(look); }};
            look(); }})""")

    def hover(self, x, y):
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path, whole=True):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.send("Page.captureScreenshot", captureBeyondViewport=whole)["data"]))
