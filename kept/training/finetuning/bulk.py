"""A run's predictions for a file of texts: read, linked, predicted and written line by line.

Memory is that of a block of lines, and the first lines are written before the last are read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from entity_linking.errors import LinkingError
from entity_linking.mentions import Linker
from kept.csv_text import csv_line
from kept.errors import ConfigError, KeptError
from kept.graphs.cuts import Cut, report_cut
from kept.linking.stream import PartialOutput
from kept.tasks.datasets.unlabelled import UnlabelledLine
from kept.tasks.kinds import Prediction, task_kind
from kept.training.finetuning.predictor import CONFIG_FILE, Predictor
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport
from kg_loaders.disk.writing import write_lines

LINES_PER_BLOCK = 32
LABELS_BETWEEN, WORDS_BETWEEN = "|", " "
TABLE = ".csv"
"""Decimal places of a confidence."""
SEAL = "checksums.json"
Block = list[dict[str, Any]]
Progress = Callable[[Iterator[Block], int], Iterator[Block]]


class LinePredictor(Protocol):
    """Whatever predicts the lines of a file, a block after the other."""

    def blocks(self, lines: Iterable[UnlabelledLine]) -> Iterator[Block]:
        """Yield what is written of each line, in blocks."""

    def report_cuts(self) -> None:
        """Say in the log what was cut of long texts."""


@dataclass(eq=False)
class BulkPrediction:
    """A run over a graph, which predicts blocks of lines; faulty lines go to `report`.

    `cut` counts what was cut of long texts.
    """

    predictor: Predictor
    graph: KnowledgeGraph
    linker: Linker
    location: str
    report: DamageReport
    cut: Cut | None = None

    def blocks(self, lines: Iterable[UnlabelledLine]) -> Iterator[Block]:
        """Yield what is written of each line, in blocks; a line that cannot be read is rejected."""
        stream = iter(lines)
        while block := list(islice(stream, LINES_PER_BLOCK)):
            yield self._block(block)

    def report_cuts(self) -> None:
        """Say in the log what was cut, once for all texts."""
        if self.cut is not None:
            report_cut(self.cut, self.predictor.remedy_for_cuts())

    def _block(self, lines: list[UnlabelledLine]) -> Block:
        try:
            return self._predicted(lines)
        except (KeptError, LinkingError) as error:
            if len(lines) == 1:
                excerpt = json.dumps(lines[0].fields, ensure_ascii=False).encode()
                self.report.reject(self.location, lines[0].number, 0, str(error), excerpt)
                return []
        return [row for line in lines for row in self._block([line])]

    def _predicted(self, lines: list[UnlabelledLine]) -> Block:
        cuts: list[Cut] = []
        examples = [line.example for line in lines]
        predictions = self.predictor.predictions(examples, self.graph, self.linker, cuts=cuts)
        for cut in cuts:
            self.cut = cut if self.cut is None else self.cut + cut
        kind = self.predictor.model.question().problem_type
        return [
            {"line": line.number, "id": line.example.linked.id, **line.fields}
            | answer_fields(prediction, kind, line.fields)
            for line, prediction in zip(lines, predictions, strict=True)
        ]


def answer_fields(prediction: Prediction, kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return `prediction` and `confidence` as a line holds them, for a task of `kind`.

    Lists for types and tags; a number for a regression; of choices the words of the best, and
    under `choice` its number from 1.
    """
    return task_kind(kind).fields_of(prediction, fields)


# ---- writing -------------------------------------------------------------------------------------
def json_line(row: Mapping[str, Any]) -> bytes:
    """Return a row as a line of JSON with its end."""
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def csv_lines(blocks: Iterable[Block]) -> Iterator[bytes]:
    """Yield the lines of a CSV: its header, then each row.

    Types are joined by |, words and their tags by blanks.
    """
    columns: list[str] = []
    for row in (row for block in blocks for row in block):
        if not columns:
            columns = list(row)
            yield csv_line(columns).encode()
        between = WORDS_BETWEEN if "tokens" in row else LABELS_BETWEEN
        yield csv_line([_cell(row.get(name), between) for name in columns]).encode()


def _cell(value: Any, between: str) -> Any:
    if isinstance(value, list) and any(isinstance(each, list) for each in value):
        return json.dumps(value)
    if isinstance(value, list):
        return between.join("" if each is None else str(each) for each in value)
    return "" if value is None else value


def write_predictions(
    bulk: LinePredictor,
    lines: Iterator[UnlabelledLine],
    output: Path,
    *,
    key: str,
    resume: bool = False,
    force: bool = False,
    inputs: Iterable[str | Path] = (),
    progress: Progress = lambda blocks, n_done: blocks,
) -> int:
    """Write a prediction for each line to `output`; return how many lines it has.

    A name that ends in .csv is a table, which appears whole; any other holds JSON lines, which
    `resume` goes on with. `key` names what the predictions depend on beside the lines. `progress`
    wraps the blocks, and is given how many lines were written before. Raises `ConfigError`,
    `LinkingError` for a part of other lines, and `WriteError`.
    """
    if output.suffix.lower() == TABLE:
        if resume:
            raise ConfigError(f"{output} cannot be resumed; write .jsonl, which can be")
        table = csv_lines(progress(bulk.blocks(lines), 0))
        return max(write_lines(output, table, force=force, inputs=inputs) - 1, 0)
    with PartialOutput(output, key, resume=resume, force=force, inputs=inputs) as part:
        n_done = _skip_written(part, lines)
        blocks = progress(bulk.blocks(lines), n_done)
        return n_done + part.write([json_line(row) for row in block] for block in blocks)


def _skip_written(part: PartialOutput, lines: Iterator[UnlabelledLine]) -> int:
    """Take the lines that are written from `lines`, and those between; return how many."""
    n_done = 0
    for n_done, row in part.rows():
        line = next((each for each in lines if each.number == row.get("line")), None)
        if line is None or any(row.get(name) != value for name, value in line.fields.items()):
            raise part.other_text(n_done, row)
    return n_done


def output_key(run: Path, predictor: Predictor, graph: KnowledgeGraph) -> str:
    """Return a name of all that predictions depend on: the run's files, the graph, the linker."""
    digest = hashlib.sha256()
    for name in (SEAL, CONFIG_FILE):
        path = run / name
        digest.update(path.read_bytes() if path.is_file() else b"")
    given_links = " given" if predictor.links_given else ""
    linker = f"{predictor.link_method} {predictor.case}{given_links}"
    return f"predict {digest.hexdigest()} {graph.content_hash} {linker}"
