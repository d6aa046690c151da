"""What one request, and all of them together, may take."""

from __future__ import annotations

from dataclasses import dataclass

MAX_TEXT, MAX_NAME = 2000, 500
"""Characters of a text and of a name."""
MAX_TEXTS, MAX_CANDIDATES, MAX_ANSWERS = 64, 1000, 100


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bytes of a request and of an answer, seconds, and counts.

    `receive_seconds`: until a request has arrived whole; `answer_seconds`: until it is answered,
    waiting included; `grace_seconds`: how long a stopping server waits for requests on their way.
    `n_requests` are in work or waiting at once, `n_connections` open. `batch_texts`: texts of
    several requests that are read in one batch, gathered for `gather_seconds`. `memory_bytes`: of
    the process; above, nothing new is taken on; None for no limit.
    """

    body_bytes: int = 256 * 1024
    result_bytes: int = 16 * 1024 * 1024
    receive_seconds: float = 10.0
    answer_seconds: float = 60.0
    grace_seconds: float = 0.5
    n_requests: int = 64
    n_connections: int = 128
    batch_texts: int = 64
    gather_seconds: float = 0.002
    memory_bytes: int | None = None
