"""The page over HTTP, for one person on this machine: loopback, a token, and limits on everything.

docs/how-to/explorer.md says who is kept out and how. No path of a request ever names a file: the
answers are the page, its style and script, and the calls of `CALLS`.
"""

from __future__ import annotations

import hmac
import io
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from entity_linking.errors import LinkingError
from kept.apps.explorer.explorer import Explorer
from kept.apps.explorer.page import live_page
from kept.apps.explorer.questions import NameQuestion, Question, read_question
from kept.errors import KeptError
from kg_loaders.errors import KgError

HOST = "127.0.0.1"
FAILURES = (KeptError, LinkingError, KgError)
"""What a question may come to: told on the page, with their own words."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request, and all of them together, may take."""

    body_bytes: int = 64 * 1024
    result_bytes: int = 8 * 1024 * 1024
    receive_seconds: float = 10.0
    answer_seconds: float = 60.0
    n_connections: int = 16
    n_waiting: int = 4


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes out: the status, the type of the body, the body."""

    status: HTTPStatus
    kind: str
    body: bytes

    @classmethod
    def failure(cls, status: HTTPStatus, message: str) -> Reply:
        """Return an error as the page reads it."""
        return cls(status, "application/json", json.dumps({"error": message}).encode())


CALLS: Mapping[str, tuple[type[Question] | type[NameQuestion], str]] = {
    "link": (Question, "link"),
    "read": (Question, "read"),
    "used": (Question, "used"),
    "what-if": (Question, "what_if"),
    "correct": (Question, "correct"),
    "names": (NameQuestion, "names"),
}
"""Each call of the page: what it asks, and the method of `Explorer` that answers."""


class ExplorerServer(ThreadingHTTPServer):
    """Serves one explorer on the loopback interface; `url` is the only way in.

    Questions are answered one after the other by one thread of its own: models and linkers are not
    asked twice at once, and memory is that of one question.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 16

    def __init__(
        self, explorer: Explorer, texts: list[str], *, port: int = 0, limits: Limits | None = None
    ) -> None:
        self.explorer, self.limits = explorer, limits or Limits()
        self.token = secrets.token_urlsafe(32)
        self.page = live_page(explorer, texts)
        self._slots = threading.BoundedSemaphore(self.limits.n_connections)
        self._waiting = threading.BoundedSemaphore(self.limits.n_waiting)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="explorer")
        super().__init__((HOST, port), _Handler)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The values of a Host header that are answered: a name that resolves here is not enough
        (DNS rebinding)."""
        return tuple(f"{name}:{self.server_port}" for name in (HOST, "localhost"))

    @property
    def url(self) -> str:
        """The address of the page, with its token."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for a connection, while there are fewer than `n_connections`."""
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """As the library does, and the place is free again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A broken connection is not reported; what fails inside is answered there."""

    def answer(self, work: Callable[[], Reply]) -> Reply:
        """Return what `work` comes to, in turn; a failure where it waits or takes too long.

        Work that takes too long goes on, and others wait for it: sizes bound how long that is.
        """
        if not self._waiting.acquire(blocking=False):
            return Reply.failure(
                HTTPStatus.SERVICE_UNAVAILABLE, "other requests are being answered; try again"
            )
        future: Future[Reply] = self._worker.submit(work)
        future.add_done_callback(lambda _: self._waiting.release())
        try:
            return future.result(self.limits.answer_seconds)
        except FutureTimeoutError:
            future.cancel()
            return Reply.failure(
                HTTPStatus.GATEWAY_TIMEOUT,
                f"no answer within {self.limits.answer_seconds:g} seconds; ask about a shorter "
                "text, or wait for the machine",
            )

    def call(self, name: str, body: bytes) -> Reply:
        """Answer one call of the page; whatever fails is a reply."""
        kind, method = CALLS[name]
        try:
            result = getattr(self.explorer, method)(read_question(kind, body))
        except FAILURES as error:
            return Reply.failure(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        except Exception as error:  # noqa: BLE001 - told to the person who asked, by its name
            message = f"{type(error).__name__}: {error}. this error was not expected"
            return Reply.failure(HTTPStatus.INTERNAL_SERVER_ERROR, message)
        written = json.dumps(result, ensure_ascii=False).encode("utf-8", "replace")
        if len(written) > self.limits.result_bytes:
            return Reply.failure(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"the answer has {len(written):,} bytes, more than {self.limits.result_bytes:,}; "
                "ask about a shorter text",
            )
        return Reply(HTTPStatus.OK, "application/json", written)

    def server_close(self) -> None:
        """Close the socket; a question that is being answered is not waited for."""
        super().server_close()
        self._worker.shutdown(wait=False, cancel_futures=True)


class _Deadline(io.RawIOBase):
    """Reads from a socket until a moment: a client that sends a byte now and then gains nothing."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._socket, self._end = connection, time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took too long to arrive")
        self._socket.settimeout(left)
        return self._socket.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    """One connection, one request."""

    server: ExplorerServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "kept", ""

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        raw = _Deadline(self.connection, self.server.limits.receive_seconds)
        self.rfile = io.BufferedReader(raw)

    def do_GET(self) -> None:
        """The page, its style or its script."""
        part = self._inside()
        if isinstance(part, Reply):
            self._send(part)
            return
        file = self.server.page.files.get(part)
        if file is None:
            self._send(Reply.failure(HTTPStatus.NOT_FOUND, "there is nothing of that name"))
            return
        self._send(Reply(HTTPStatus.OK, *file))

    def do_POST(self) -> None:
        """A question of the page."""
        part = self._inside()
        self._send(part if isinstance(part, Reply) else self._reply(part))

    def _reply(self, part: str) -> Reply:
        before, _, name = part.rpartition("/")
        if before != "call" or name not in CALLS:
            return Reply.failure(HTTPStatus.NOT_FOUND, "there is no such request")
        body = self._body()
        if isinstance(body, Reply):
            return body
        return self.server.answer(lambda: self.server.call(name, body))

    def _inside(self) -> str | Reply:
        """The path behind the token, or why there is no answer."""
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            return Reply.failure(
                HTTPStatus.MISDIRECTED_REQUEST, "requests for this host name are refused"
            )
        origin = self.headers.get("Origin")
        if origin is not None and origin not in {f"http://{h}" for h in self.server.hosts}:
            return Reply.failure(HTTPStatus.FORBIDDEN, "another page may not ask here")
        if self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            return Reply.failure(HTTPStatus.FORBIDDEN, "another page may not ask here")
        _, _, rest = self.path.partition("/")
        token, slash, part = rest.partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()) or not slash:
            return Reply.failure(
                HTTPStatus.FORBIDDEN, "wrong token; take the whole address that kept printed"
            )
        return part

    def _body(self) -> bytes | Reply:
        limits = self.server.limits
        if self.headers.get_content_type() != "application/json":
            return Reply.failure(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "questions are JSON")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in self.headers:
            return Reply.failure(HTTPStatus.LENGTH_REQUIRED, "a request needs a Content-Length")
        if len(length) > 9 or int(length) > limits.body_bytes:
            return Reply.failure(
                HTTPStatus.CONTENT_TOO_LARGE
                if hasattr(HTTPStatus, "CONTENT_TOO_LARGE")
                else HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"a question has at most {limits.body_bytes:,} bytes",
            )
        try:
            body = self.rfile.read(int(length))
        except TimeoutError as error:
            return Reply.failure(HTTPStatus.REQUEST_TIMEOUT, str(error))
        if len(body) < int(length):
            return Reply.failure(HTTPStatus.BAD_REQUEST, "the question broke off")
        return body

    def _send(self, reply: Reply) -> None:
        self.close_connection = True
        self.connection.settimeout(self.server.limits.receive_seconds)
        self.send_response(reply.status)
        for name, value in (
            ("Content-Type", f"{reply.kind}; charset=utf-8"),
            ("Content-Length", str(len(reply.body))),
            ("Content-Security-Policy", self.server.page.policy),
            *HEADERS,
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: an address holds the token."""


HEADERS = (
    ("Connection", "close"),
    ("Cache-Control", "no-store"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
