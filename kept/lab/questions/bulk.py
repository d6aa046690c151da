"""Answers of a folder of `kept fit` on questions to a file of questions, a line each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from kept.lab.questions.fitted import FILE, FittedAnswerer
from kept.tasks.datasets.unlabelled import UnlabelledLine
from kept.tasks.kinds import PLACES
from kept.training.finetuning.bulk import Block

LINES_PER_BLOCK = 8
"""Fewer than of other runs: a decoder takes seconds for a question."""


@dataclass(eq=False)
class BulkAnswers:
    """Answers blocks of questions; a `kept.training.finetuning.bulk.LinePredictor`."""

    answerer: FittedAnswerer

    def blocks(self, lines: Iterable[UnlabelledLine]) -> Iterator[Block]:
        """Yield what is written of each question, in blocks."""
        stream = iter(lines)
        while block := list(islice(stream, LINES_PER_BLOCK)):
            texts = [line.example.linked.text for line in block]
            answers = self.answerer.answer_texts(texts)
            yield [
                _row(line) | {
                    "prediction": list(answer.values), "refusal": answer.refusal,
                    "entity": answer.entity, "relation": answer.relation,
                    "confidence": round(answer.confidence, PLACES),
                }
                for line, answer in zip(block, answers, strict=True)
            ]  # fmt: skip

    def report_cuts(self) -> None:
        """Nothing is cut of a question."""


def _row(line: UnlabelledLine) -> dict[str, Any]:
    return {"line": line.number, "id": line.example.linked.id, **line.fields}


def answers_key(run: Path, answerer: FittedAnswerer) -> str:
    """Return a name of all that answers depend on: the folder's settings and the graph."""
    digest = hashlib.sha256((run / FILE).read_bytes()).hexdigest()
    return f"answer {digest} {answerer.graph.content_hash}"
