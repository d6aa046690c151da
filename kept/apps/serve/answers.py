"""Answers as they are sent: JSON at once, or a line of JSON for each question as it is answered."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from fastapi import Response
from starlette.responses import StreamingResponse

from entity_linking.errors import LinkingError
from kept.apps.serve.batching import Batcher
from kept.apps.serve.errors import NotServedError
from kept.apps.serve.limits import LATE, Limits
from kept.errors import KeptError, MissingExtraError
from kg_loaders.errors import KgError

LINES = "application/x-ndjson"


class Answer(Response):
    """JSON; labels may hold anything that a string can."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The bytes of `content`."""
        return json_bytes(content)


def json_bytes(content: Any) -> bytes:
    """Return JSON in UTF-8; what no encoding can hold is replaced."""
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")


def unforeseen(error: Exception) -> str:
    """Say of an error that nothing foresaw what it is, without its text."""
    return f"{type(error).__name__}: this error was not expected"


async def streamed(
    batcher: Batcher, kind: str, questions: Sequence[Any], limits: Limits
) -> Response:
    """Return an answer of a line for each question, in their order: its `index`, then the answer.

    A question that cannot be answered has a line with `error`, and the others are answered. The
    first part is awaited here, so that what is not served at all has its status.
    """
    first = await _part(batcher, kind, questions[: limits.stream_texts])

    async def lines() -> AsyncIterator[bytes]:
        n_bytes, part, start = 0, first, 0
        while part:
            block = b"".join(
                json_bytes({"index": index, **answer}) + b"\n"
                for index, answer in enumerate(part, start)
            )
            n_bytes += len(block)
            if n_bytes > limits.result_bytes:
                fault = f"the answers have more than {limits.result_bytes:,} bytes; ask for fewer"
                yield json_bytes({"index": start, "error": fault}) + b"\n"
                return
            yield block
            start += len(part)
            part = await _part(batcher, kind, questions[start : start + limits.stream_texts])

    return StreamingResponse(lines(), media_type=LINES)


async def _part(batcher: Batcher, kind: str, questions: Sequence[Any]) -> list[dict[str, Any]]:
    """The answers to some questions, or what is wrong with each that has none.

    Raises `NotServedError` and `MissingExtraError`.
    """
    if not questions:
        return []
    try:
        return await batcher.submit(kind, questions)
    except (NotServedError, MissingExtraError):
        raise
    except TimeoutError:
        return [{"error": LATE} for _ in questions]
    except (KeptError, LinkingError, KgError) as error:
        if len(questions) == 1:
            return [{"error": str(error)}]
    except Exception as error:  # noqa: BLE001 - told in place of the answer, without its text
        return [{"error": unforeseen(error)} for _ in questions]
    return [answer for each in questions for answer in await _part(batcher, kind, [each])]
