"""Drives a Chromium without a window over its debugging protocol. Standard library only.

    with Browser("chromium") as browser:
        browser.open("file:///tmp/report.html")
        browser.js("document.title")
"""
import base64
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request


def find_chromium():
    """The browser's program, or None. CHROMIUM names another one."""
    names = [os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome"]
    return next((path for path in map(shutil.which, filter(None, names)) if path), None)


class WebSocket:
    """A client of one WebSocket (RFC 6455): text messages, no extensions."""

    def __init__(self, url, timeout=60):
        at = urllib.parse.urlparse(url)
        self.socket = socket.create_connection((at.hostname, at.port), timeout=timeout)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {at.path} HTTP/1.1\r\nHost: {at.netloc}\r\nUpgrade: websocket\r\n"
                             f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                             "Sec-WebSocket-Version: 13\r\n\r\n").encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.socket.recv(4096)
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise ConnectionError(head.decode(errors="replace"))

    def read(self, size):
        while len(self.buffer) < size:
            more = self.socket.recv(1 << 20)
            if not more:
                raise ConnectionError("the browser has gone")
            self.buffer += more
        piece, self.buffer = self.buffer[:size], self.buffer[size:]
        return piece

    def send(self, text):
        payload, mask = text.encode(), os.urandom(4)
        size = len(payload)
        if size < 126:
            head = struct.pack("!BB", 0x81, 0x80 | size)
        elif size < 65536:
            head = struct.pack("!BBH", 0x81, 0x80 | 126, size)
        else:
            head = struct.pack("!BBQ", 0x81, 0x80 | 127, size)
        whole = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(payload, "big") ^ int.from_bytes(whole, "big")).to_bytes(size, "big")
        self.socket.sendall(head + mask + masked)

    def receive(self):
        message = b""
        while True:
            first, second = self.read(2)
            size = second & 127
            if size == 126:
                size = struct.unpack("!H", self.read(2))[0]
            elif size == 127:
                size = struct.unpack("!Q", self.read(8))[0]
            payload = self.read(size)
            if first & 15 in (0, 1, 2):
                message += payload
                if first & 128:
                    return message.decode()


class Browser:
    def __init__(self, program, width=1180, height=900):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        # Without a sandbox, because tests often run as root in a container; only our own pages are opened.
        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
             "--disable-component-update", "--no-first-run", "--hide-scrollbars", "--remote-debugging-port=0",
             "--remote-allow-origins=*", f"--user-data-dir={self.folder.name}", f"--window-size={width},{height}",
             "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        port = self.wait(self.port, 30)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as reply:
            tab = next(tab for tab in json.load(reply) if tab["type"] == "page")
        self.socket, self.number, self.events = WebSocket(tab["webSocketDebuggerUrl"]), 0, []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def port(self):
        path = pathlib.Path(self.folder.name, "DevToolsActivePort")
        return path.read_text().split()[0] if path.exists() and path.stat().st_size else None

    @staticmethod
    def wait(condition, seconds=20):
        """What the condition returns as soon as it is true."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        raise TimeoutError(f"not within {seconds} s")

    def send(self, method, **params):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.receive())
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def js(self, expression):
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression[:200]}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def open(self, url):
        self.send("Page.navigate", url=url)
        self.wait(lambda: self.js("performance.getEntriesByName('page-complete').length"), 60)

    def media(self, **features):
        self.send("Emulation.setEmulatedMedia",
                  features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()])

    def size(self, width, height, scale=1, mobile=False):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=mobile)

    def press(self, key, code):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def mouse(self, kind, x, y, button="none"):
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button,
                  buttons=1 if button == "left" else 0, clickCount=1 if button == "left" else 0)

    def picture(self, path, height=None):
        """The whole page, or its upper part, as PNG."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], height or 1e9), "scale": 1}
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def complaints(self):
        """Errors that the page or the browser logged, and requests to elsewhere."""
        self.js("0")
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("text", ""))
            elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"])
            elif event.get("method") == "Page.javascriptDialogOpening":
                found.append("a dialog: " + params["message"])
            elif event.get("method") == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file:", "data:", "about:", "http://127.0.0.1:")):
                    found.append("asked for " + url)
        return found
