"""A lag exporter that tests write the lines of.

    lag_exporter.py FILE PORT_FILE

Listens on a free loopback port, which it writes to PORT_FILE.

    PUT /metrics   the exposition text to serve from now on; the word NOW stands for the time of the scrape in
                   milliseconds, as explicit timestamps are written. Kept in FILE, so that a restart serves it again.
    PUT /mode      ok | error | garbage | hang: how scrapes are answered
    GET /metrics   a scrape
"""

import http.server
import os
import sys
import threading
import time


class Exporter(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    mode = "ok"
    released = threading.Event()

    def log_message(self, *_):
        pass

    def answer(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        mode = Exporter.mode
        if mode == "hang":
            Exporter.released.wait(60)
        if mode == "error":
            return self.answer(500, "the broker does not answer\n")
        if mode == "garbage":
            return self.answer(200, "{ no exposition\n")
        try:
            with open(sys.argv[1]) as kept:
                text = kept.read()
        except FileNotFoundError:
            text = ""
        self.answer(200, text.replace("NOW", str(int(time.time() * 1000))))

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self.path == "/metrics":
            whole(sys.argv[1], body)
        elif self.path == "/mode":
            Exporter.mode = body.strip()
            if Exporter.mode != "hang":
                Exporter.released.set()
                Exporter.released = threading.Event()
        else:
            return self.answer(404, "only /metrics and /mode\n")
        self.answer(200, "")


def whole(path, text):
    """Never half a file."""
    with open(path + ".new", "w") as new:
        new.write(text)
    os.replace(path + ".new", path)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # A restart on the same port must not wait for old connections to be forgotten.
    allow_reuse_address = True


if __name__ == "__main__":
    wanted = 0
    if os.path.exists(sys.argv[2]):
        with open(sys.argv[2]) as known:
            wanted = int(known.read())
    server = Server(("127.0.0.1", wanted), Exporter)
    whole(sys.argv[2], "%d\n" % server.server_address[1])
    server.serve_forever()
