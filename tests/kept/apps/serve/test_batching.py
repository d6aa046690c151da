"""Questions of several requests in one batch: which are joined, and whose the answers are."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from kept.apps.serve.batching import Batcher
from kept.apps.serve.limits import Limits


async def answers_of(
    requests: Sequence[tuple[str, list[int]]], *, batch_texts: int = 64
) -> tuple[list[Any], list[list[int]], list[tuple[str, int, int]]]:
    """Answers or errors by request, the batches in order, and what was observed of each."""
    batches: list[list[int]] = []
    observed: list[tuple[str, int, int]] = []

    def ten_times(questions: Sequence[Any]) -> list[int]:
        batches.append(list(questions))
        if -1 in questions:
            raise ValueError("minus one")
        return [10 * question for question in questions]

    batcher = Batcher(
        {"link": ten_times, "embed": ten_times},
        Limits(batch_texts=batch_texts, gather_seconds=0.0),
        lambda *each: observed.append(each),
    )
    waiting = [asyncio.ensure_future(batcher.submit(*request)) for request in requests]
    await asyncio.sleep(0)  # all wait before the first batch begins
    batcher.start()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    await batcher.stop()
    return results, batches, observed


def test_requests_of_a_kind_are_one_batch_and_each_gets_its_own() -> None:
    requests = [("link", [1, 2]), ("embed", [3]), ("link", [4, 5, 6]), ("link", [])]
    results, batches, observed = asyncio.run(answers_of(requests))
    assert results == [[10, 20], [30], [40, 50, 60], []]
    assert batches == [[1, 2, 4, 5, 6], [3]]
    assert observed == [("link", 5, 3), ("embed", 1, 1)]


@pytest.mark.parametrize(
    ("sizes", "batch_texts", "joined"),
    [
        ([2, 2], 4, [4]),  # exactly full
        ([2, 3], 4, [2, 3]),
        ([3, 2, 1], 4, [4, 2]),  # a later one that fits goes before one that does not
        ([5, 1], 4, [5, 1]),  # too large for any batch: alone
        ([1, 1, 1], 1, [1, 1, 1]),
        ([1, 1, 1, 1], 3, [3, 1]),
    ],
)
def test_they_are_joined_while_they_fit(
    sizes: list[int], batch_texts: int, joined: list[int]
) -> None:
    requests = [("link", [10 * i + j for j in range(n)]) for i, n in enumerate(sizes)]
    results, batches, _ = asyncio.run(answers_of(requests, batch_texts=batch_texts))
    assert results == [[10 * question for question in questions] for _, questions in requests]
    assert [len(batch) for batch in batches] == joined


def test_a_request_that_fails_fails_alone() -> None:
    results, batches, _ = asyncio.run(answers_of([("link", [1]), ("link", [-1, 2]), ("link", [3])]))
    assert (results[0], results[2]) == ([10], [30])
    assert isinstance(results[1], ValueError)
    assert batches == [[1, -1, 2, 3], [1], [-1, 2], [3]]


def test_a_request_that_waits_too_long_is_given_up_and_never_asked() -> None:
    gate, questions_read = threading.Event(), list[int]()

    def read(questions: Sequence[int]) -> Sequence[int]:
        questions_read.extend(questions)
        gate.wait(60)
        return questions

    async def answers() -> tuple[list[Any], list[int]]:
        limits = Limits(answer_seconds=0.5, gather_seconds=0.0)
        batcher = Batcher({"link": read}, limits)
        batcher.start()
        requests = [asyncio.ensure_future(batcher.submit("link", [1]))]
        while not questions_read:
            await asyncio.sleep(0.01)
        requests += [asyncio.ensure_future(batcher.submit("link", [n])) for n in (2, 3)]
        await asyncio.sleep(0)
        numbers = [batcher.n_waiting]
        results = await asyncio.gather(*requests, return_exceptions=True)
        gate.set()
        await batcher.stop()
        return results, [*numbers, batcher.n_waiting]

    results, n_waiting = asyncio.run(answers())
    assert [type(result) for result in results] == [TimeoutError] * 3
    assert n_waiting == [2, 0]
    assert questions_read == [1]
