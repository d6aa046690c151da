"""The service behind a socket: HTTP/1.1 by uvicorn, stopped without losing a request."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Iterable

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from kept.apps.serve.app import make_app
from kept.apps.serve.limits import Limits
from kept.apps.serve.service import Service
from kept.errors import ConfigError

MIN_TOKEN = 16


def require_address(address: str, token: str | None) -> None:
    """Raise `ConfigError` for no IP address, and for one that others reach without a token."""
    try:
        is_local = ipaddress.ip_address(address).is_loopback
    except ValueError as error:
        raise ConfigError(f"{address!r} is not an IP address; 127.0.0.1 is this machine") from error
    if token is not None and not (len(token) >= MIN_TOKEN and token.isascii()):
        raise ConfigError(f"a token has {MIN_TOKEN} ASCII characters or more")
    if not is_local and token is None:
        raise ConfigError(
            f"others reach {address}: set your own token (KEPT_TOKEN), and put the service "
            "behind a server that speaks TLS"
        )


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens there; raises `OSError`."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
    except OSError as error:
        listening.close()
        reason = f"{error.strerror}: {address}, port {port}; choose another"
        raise OSError(error.errno, reason) from error
    listening.listen(1024)
    return listening


def make_server(
    service: Service,
    listening: socket.socket,
    *,
    token: str,
    names: Iterable[str] = (),
    limits: Limits | None = None,
) -> uvicorn.Server:
    """Return the server of a socket; `run(sockets=[listening])` answers until SIGINT or SIGTERM.

    It then answers what was asked, and returns. `names` are further Host headers that are answered.
    """
    bounds = limits or Limits()
    address, port = listening.getsockname()[:2]
    host = f"[{address}]" if ":" in address else address
    hosts = {f"{host}:{port}", f"localhost:{port}", *names}
    stopping = threading.Event()
    config = uvicorn.Config(
        make_app(service, token=token, hosts=frozenset(hosts), limits=bounds),
        http=_protocol(bounds, stopping), ws="none", loop="asyncio", lifespan="on",
        log_level="warning", access_log=False, server_header=False, proxy_headers=False,
        limit_concurrency=bounds.n_connections, timeout_keep_alive=5,
        timeout_graceful_shutdown=int(bounds.answer_seconds) + 1,
    )  # fmt: skip
    return _Server(config, stopping)


class _Server(uvicorn.Server):
    """Tells its connections that it stops, those too that are accepted in that moment."""

    def __init__(self, config: uvicorn.Config, stopping: threading.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets)


def _protocol(limits: Limits, stopping: threading.Event) -> type[H11Protocol]:
    """HTTP that leaves connections which ask nothing, and waits for requests on their way."""

    class Protocol(H11Protocol):
        """`silent` ends a connection that has sent no whole head of a request in time."""

        silent: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def handle_events(self) -> None:
            before = self.cycle
            super().handle_events()
            if self.cycle is not before:
                self._clear()
                if stopping.is_set():
                    self.cycle.keep_alive = False

        def on_response_complete(self) -> None:
            self._wait()
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._clear()
            super().connection_lost(exc)

        def shutdown(self) -> None:
            """Stop: a connection without a request is given a moment to send one."""
            if self.cycle is None or self.cycle.response_complete:
                self._wait()
            else:
                self.cycle.keep_alive = False

        def _wait(self) -> None:
            """Begin to wait for a request."""
            self._clear()
            seconds = limits.grace_seconds if stopping.is_set() else limits.receive_seconds
            self.silent = self.loop.call_later(seconds, self._leave)

        def _leave(self) -> None:
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

        def _clear(self) -> None:
            if self.silent is not None:
                self.silent.cancel()
                self.silent = None

    return Protocol
