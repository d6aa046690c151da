"""A service that runs in a thread of the tests."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kept.apps.serve.limits import Limits
from kept.apps.serve.server import listen, make_server
from kept.apps.serve.service import Service

TOKEN = "a token of the tests"


@dataclass
class Running:
    """A service that answers; `server` is uvicorn's."""

    port: int
    server: Any
    thread: threading.Thread

    def request(
        self, path: str, body: Any = None, *, raw: bytes | None = None, method: str | None = None,
        **headers: str,
    ) -> tuple[int, dict[str, str], Any]:  # fmt: skip
        """Return status, headers and body of one request; JSON is read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        sent = raw if raw is not None else None if body is None else json.dumps(body).encode()
        request_headers = {"Authorization": f"Bearer {TOKEN}"}
        if sent is not None:
            request_headers["Content-Type"] = "application/json"
        request_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(
                method or ("GET" if sent is None else "POST"), path, sent, request_headers
            )
            reply = connection.getresponse()
            content = reply.read()
            reply_headers = {name.lower(): value for name, value in reply.getheaders()}
        finally:
            connection.close()
        is_json = reply_headers.get("content-type", "").startswith("application/json")
        return reply.status, reply_headers, json.loads(content) if is_json else content

    def socket(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)


@contextmanager
def running(service: Service, limits: Limits | None = None) -> Iterator[Running]:
    """Serve in a thread, until the block ends."""
    listening = listen("127.0.0.1", 0)
    server = make_server(service, listening, token=TOKEN, limits=limits)
    port = listening.getsockname()[1]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Running(port, server, thread)
    finally:
        server.should_exit = True
        thread.join(30)
