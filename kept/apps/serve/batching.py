"""`Batcher`: questions of several requests in one batch, in turn, by one thread.

Models and linkers are not asked twice at once, and memory is that of one batch. A batch that fails
is asked again request by request, so that nobody is refused for what another asked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kept.apps.serve.limits import Limits

Work = Callable[[Sequence[Any]], Sequence[Any]]
"""Takes the questions of a batch and returns as many answers."""


@dataclass(frozen=True, eq=False)
class _Job:
    kind: str
    questions: Sequence[Any]
    answer: asyncio.Future[list[Any]]


class Batcher:
    """Answers questions of the kinds of `work`; used within one event loop.

    `observe(kind, n_questions, n_requests)` is told of every batch.
    """

    def __init__(
        self,
        work: Mapping[str, Work],
        limits: Limits,
        observe: Callable[[str, int, int], None] = lambda kind, questions, requests: None,
    ) -> None:
        self._work, self._limits, self._observe = dict(work), limits, observe
        self._waiting: deque[_Job] = deque()
        self._news = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kept-serve")
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    @property
    def n_waiting(self) -> int:
        """How many requests wait for their batch."""
        return len(self._waiting)

    def start(self) -> None:
        """Begin to answer; called in the event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Answer what waits, then end."""
        self._stopping = True
        self._news.set()
        if self._task is not None:
            await self._task
        self._thread.shutdown(wait=True)

    async def submit(self, kind: str, questions: Sequence[Any]) -> list[Any]:
        """Return the answers to `questions`, in their order.

        Raises what the work raises, and `TimeoutError` after `answer_seconds`; a question that
        has not begun by then is never asked.
        """
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Job(kind, questions, answer))
        self._news.set()
        return await asyncio.wait_for(answer, self._limits.answer_seconds)

    async def _run(self) -> None:
        while self._waiting or not self._stopping:
            if not self._waiting:
                self._news.clear()
                await self._news.wait()
                await asyncio.sleep(self._limits.gather_seconds)
                continue
            jobs = self._next()
            if jobs:
                await self._answer(jobs)

    def _next(self) -> list[_Job]:
        """The first job, and later ones of its kind while they fit; those given up are dropped."""
        jobs: list[_Job] = []
        left: deque[_Job] = deque()
        n = 0
        for job in self._waiting:
            if job.answer.done():
                continue
            fits = not jobs or n + len(job.questions) <= self._limits.batch_texts
            if fits and (not jobs or job.kind == jobs[0].kind):
                jobs.append(job)
                n += len(job.questions)
            else:
                left.append(job)
        self._waiting = left
        return jobs

    async def _answer(self, jobs: Sequence[_Job]) -> None:
        questions = [question for job in jobs for question in job.questions]
        self._observe(jobs[0].kind, len(questions), len(jobs))
        work = self._work[jobs[0].kind]
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(self._thread, work, questions)
        except Exception as error:  # noqa: BLE001 - raised where the question was asked
            if len(jobs) > 1:
                for job in jobs:
                    await self._answer([job])
            elif not jobs[0].answer.done():
                jobs[0].answer.set_exception(error)
            return
        rest = iter(answers)
        for job in jobs:
            part = [next(rest) for _ in job.questions]
            if not job.answer.done():
                job.answer.set_result(part)
