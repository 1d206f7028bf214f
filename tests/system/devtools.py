"""A headless Chromium, driven over a pipe: the DevTools protocol."""
import base64
import json
import os
import pathlib
import subprocess
import time


class Browser:
    """Messages are JSON and end with a NUL byte."""

    def __init__(self, chromium, profile):
        to_us, from_browser = os.pipe()
        to_browser, from_us = os.pipe()
        self.process = subprocess.Popen(
            ["sh", "-c", 'exec "$@" 3<&%d 4>&%d' % (to_browser, from_browser),
             "sh", chromium, "--headless=new", "--no-sandbox", "--disable-gpu",
             "--disable-extensions", "--no-first-run", "--window-size=1200,900",
             "--user-data-dir=" + profile, "--remote-debugging-pipe",
             "about:blank"],
            pass_fds=(to_browser, from_browser), stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.input, self.output = from_us, to_us
        self.buffer = b""
        self.number = 0
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]

    def read(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.output, 1 << 16)
            if not piece:
                raise SystemExit("the browser has ended")
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.input, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method):
        while not any(e.get("method") == method for e in self.events):
            self.events.append(self.read())

    def open(self, path):
        """Returns the seconds until the page is loaded and drawn."""
        self.events.clear()
        start = time.monotonic()
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        self.wait_for("Page.loadEventFired")
        return time.monotonic() - start

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression,
                           returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def end(self):
        self.process.kill()
        self.process.wait()

    def shot(self, path, x, y, width, height):
        """A PNG file of a part of the page."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                            clip={"x": x, "y": y, "width": width,
                                  "height": height, "scale": 1})
        pathlib.Path(path).write_bytes(base64.b64decode(picture["data"]))
