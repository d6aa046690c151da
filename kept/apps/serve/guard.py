"""What every request passes before anything is read of it, as ASGI middleware.

docs/how-to/service.md says who is kept out and how.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from kept.apps.serve.limits import Limits
from kept.apps.serve.metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
OPEN = ("/health", "/docs", "/openapi.json")
"""Paths that say nothing of the graph or the texts, and need no token."""
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
)


@dataclass(frozen=True)
class Refusal(Exception):
    """A request that is not let in: its status and why."""

    status: HTTPStatus
    message: str


class Guard:
    """Lets in requests with the token, for this host, of bounded size, while there is room."""

    def __init__(
        self, app: App, *, token: str, hosts: frozenset[str], limits: Limits, metrics: Metrics
    ) -> None:
        self._app, self._token, self._hosts = app, token.encode(), hosts
        self._limits, self._metrics = limits, metrics
        self._n_inside = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """One request; other kinds of connections are closed."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        started, status, is_stuck = time.perf_counter(), 0, False

        async def send_guarded(message: Message) -> None:
            nonlocal status, is_stuck
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            try:
                async with asyncio.timeout(self._limits.send_seconds):
                    await send(message)
            except TimeoutError:
                is_stuck = True
                raise

        self._n_inside += 1
        try:
            self._let_in(scope)
            body = await self._body(scope, receive)
            await self._app(scope, _replayed(body, receive), send_guarded)
        except Refusal as refusal:
            await _refuse(refusal, send_guarded)
        except Exception:
            if not is_stuck:  # a client that takes no answer is left, whatever that breaks
                raise
        finally:
            self._n_inside -= 1
            self._metrics.request(scope["path"], status, time.perf_counter() - started)

    def _let_in(self, scope: MutableMapping[str, Any]) -> None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        hosts = [value.decode("latin-1") for value in headers.get(b"host", [])]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            raise Refusal(
                HTTPStatus.MISDIRECTED_REQUEST,
                "requests for this host name are refused; start kept serve with --name for it",
            )
        if b"origin" in headers or headers.get(b"sec-fetch-site", [b"none"])[0] not in (
            b"none", b"same-origin",
        ):  # fmt: skip
            raise Refusal(HTTPStatus.FORBIDDEN, "a page in a browser may not ask here")
        if scope["path"] not in OPEN:
            authorization = headers.get(b"authorization", [b""])
            wanted = b"Bearer " + self._token
            if len(authorization) != 1 or not hmac.compare_digest(authorization[0], wanted):
                fault = "wrong token" if authorization != [b""] else "the token is missing"
                raise Refusal(HTTPStatus.UNAUTHORIZED, f"{fault}; send Authorization: Bearer TOKEN")
        if scope["method"] == "POST":
            self._admit(headers)

    def _admit(self, headers: dict[bytes, list[bytes]]) -> None:
        kind = headers.get(b"content-type", [b""])[0].partition(b";")[0].strip().lower()
        if kind != b"application/json":
            raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "questions are application/json")
        length = headers.get(b"content-length", [b"0"])[0]
        if not length.isdigit() or len(length) > 12 or int(length) > self._limits.body_bytes:
            raise self._too_large()
        if self._n_inside > self._limits.n_requests:
            raise Refusal(
                HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are waiting; try again"
            )
        most = self._limits.memory_bytes
        if most is not None and memory_bytes() > most:
            raise Refusal(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "the service has no memory left for this request; try again, or raise --max-memory",
            )

    def _too_large(self) -> Refusal:
        return Refusal(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"a request has at most {self._limits.body_bytes:,} bytes",
        )

    async def _body(self, scope: MutableMapping[str, Any], receive: Receive) -> bytes:
        """The whole body, within its time and size."""
        if scope["method"] != "POST":
            return b""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.receive_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(HTTPStatus.BAD_REQUEST, "the request broke off")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self._limits.body_bytes:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError as error:
            raise Refusal(
                HTTPStatus.REQUEST_TIMEOUT,
                f"the request took longer than {self._limits.receive_seconds:g} seconds to arrive",
            ) from error


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body at once, then whatever comes (a disconnection)."""
    first: Iterator[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def replay() -> Message:
        message = next(first, None)
        return await receive() if message is None else message

    return replay


async def _refuse(refusal: Refusal, send: Send) -> None:
    body = json.dumps({"error": refusal.message}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if refusal.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append((b"retry-after", b"1"))
    if refusal.status == HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": int(refusal.status), "headers": headers})
    await send({"type": "http.response.body", "body": body})


def memory_bytes() -> int:
    """Return the resident memory of this process; 0 where the system does not say."""
    path = Path("/proc/self/statm")
    if not path.is_file():
        return 0
    import resource

    return int(path.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
