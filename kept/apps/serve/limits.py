"""What one request, and all of them together, may take."""

from __future__ import annotations

from dataclasses import dataclass

MAX_TEXT, MAX_NAME, MAX_CONTEXT = 2000, 500, 10_000
"""Characters of a text, of a name, and of a text in which an answer stands."""
MAX_TEXTS, MAX_CANDIDATES, MAX_ANSWERS = 64, 1000, 100
MAX_STREAMED, MAX_CHOICES, MAX_FACTS = 1000, 20, 1000
"""Items of a request whose answers are streamed, choices of an item, facts of a name."""

LATE = "no answer in time; ask about fewer or shorter texts"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bytes of a request and of an answer, seconds, and counts.

    `receive_seconds`: until a request has arrived whole; `answer_seconds`: until it is answered,
    waiting included, and of a stream until each further part is; `send_seconds`: until a client has
    taken a part of an answer; `grace_seconds`: how long a stopping server waits for requests on
    their way. `stream_texts`: items of a stream that are answered together.
    `n_requests` are in work or waiting at once, `n_connections` open. `batch_texts`: texts of
    several requests that are read in one batch, gathered for `gather_seconds`. `memory_bytes`: of
    the process; above, nothing new is taken on; None for no limit.
    """

    body_bytes: int = 256 * 1024
    result_bytes: int = 16 * 1024 * 1024
    receive_seconds: float = 10.0
    answer_seconds: float = 60.0
    send_seconds: float = 30.0
    grace_seconds: float = 0.5
    n_requests: int = 64
    n_connections: int = 128
    batch_texts: int = 64
    stream_texts: int = 8
    gather_seconds: float = 0.002
    memory_bytes: int | None = None
