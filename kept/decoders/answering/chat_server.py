"""A decoder behind an OpenAI-compatible server: one question, the facts as words in its prompt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from kept.errors import ConfigError, HostError

SECONDS, MOST_BYTES = 120.0, 4 << 20
PROMPT = (
    "Answer the question with these facts alone, in a few words. If they do not answer it, say "
    "that they do not.\n\n{facts}\n\nQuestion: {question}"
)


class _NoRedirect(HTTPRedirectHandler):
    """A server that sends us elsewhere is not the one that was named."""

    def redirect_request(self, *_: Any) -> None:
        return None


def is_server(decoder: str) -> bool:
    """Whether a decoder is the address of a server.

    >>> is_server("http://127.0.0.1:11434/v1"), is_server("smollm2")
    (True, False)
    """
    return urlsplit(decoder).scheme in ("http", "https")


def written_answer(
    address: str, question: str, facts: Sequence[str], *, model: str = "", most_pieces: int = 64
) -> str:
    """Return what a model of the server at `address` writes, such as "http://127.0.0.1:11434/v1".

    `model` is its name there; without one the first that the server lists. Raises `HostError` where
    the server does not answer, answers with an error, or with something else than a chat
    completion, and `ConfigError` where it has no model.
    """
    base = address.rstrip("/")
    name = model or _first_model(base)
    content = PROMPT.format(facts="\n".join(facts), question=question)
    body = {
        "model": name, "messages": [{"role": "user", "content": content}],
        "max_tokens": most_pieces, "temperature": 0,
    }  # fmt: skip
    answer = _fetched_json(f"{base}/chat/completions", body)
    try:
        text = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError) as error:
        raise HostError(f"{base}/chat/completions answered without a message") from error
    return str(text).strip()


def _first_model(base: str) -> str:
    listed = _fetched_json(f"{base}/models", None)
    names = [each.get("id") for each in listed.get("data", []) if isinstance(each, dict)]
    if not names or not isinstance(names[0], str):
        raise ConfigError(f"{base}/models lists no model; name one with --decoder-model")
    return names[0]


def _fetched_json(address: str, body: dict[str, Any] | None) -> dict[str, Any]:
    """The JSON object at `address`; a POST where there is a body."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(address, data, {"Content-Type": "application/json"})
    try:
        with build_opener(_NoRedirect).open(request, timeout=SECONDS) as reply:
            content = reply.read(MOST_BYTES + 1)
    except HTTPError as error:
        raise HostError(f"{address} answered {error.code}: {error.reason}") from error
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise HostError(f"{address} cannot be reached: {reason}; is the server running?") from error
    if len(content) > MOST_BYTES:
        raise HostError(f"{address} answered with more than {MOST_BYTES:,} bytes")
    try:
        value = json.loads(content)
    except ValueError as error:
        raise HostError(f"{address} did not answer with JSON") from error
    if not isinstance(value, dict):
        raise HostError(f"{address} did not answer with a JSON object")
    return value
