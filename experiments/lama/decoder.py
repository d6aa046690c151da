"""`python -m experiments.lama.decoder CONFIG -o RUN`: LAMA's T-REx on a decoder.

Needs KEPT_DATA. The graph is T-REx's own facts of the 28 relations with identifiers. Three rows:
from the weights; with other facts of the subject before the text; with the fact that is asked for
among them. A fact is as popular as T-REx has sentences that state it. What is there is not asked
again.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from pydantic import NonNegativeInt, PositiveInt

from experiments.command import Results, data_root, run_study
from experiments.lama.tables import score
from kept.decoders import load_decoder
from kept.hosts import load_tokenizer
from kept.lab.probing.decoders import DecoderLM
from kept.lab.probing.engine import probe
from kept.lab.probing.items.collections import lama_templates, trex_facts
from kept.lab.probing.items.facts import (
    ClozeFact,
    answers_by_subject,
    draw_facts,
    questions,
)
from kept.lab.probing.items.item import ClozeItem, objects_of
from kept.lab.probing.items.sources import rows as read_rows
from kept.lab.probing.results import ProbeResult, read_answers, write_answers
from kept.lab.probing.tables import (
    Majority,
    ProbeRow,
    macro_row,
    majority,
    popularity_rows,
    total_row,
)
from kept.lab.study.cells import NONE, CellTrial, page_of
from kept.lab.study.origins import Origin
from kept.lab.study.tables import Table, percent
from kept.randomness import generator
from kept.training.config import RunConfig
from kg_loaders import KnowledgeGraph, graph_from_records
from kg_loaders.damage import DamageReport
from kg_loaders.records import Record, Text, TextKind, Triple

SENTENCES = (0, 1, 2, 5, 10)
WEIGHTS, OTHERS, WITH_FACT = "from the weights", "other facts shown", "the asked fact shown, too"


class DecoderStudy(RunConfig):
    """`n_objects` candidates a relation at most, `n_facts` facts of the subject before a text."""

    host: str
    seed: NonNegativeInt
    facts_per_relation: PositiveInt
    n_objects: PositiveInt
    n_facts: PositiveInt


class _Stated(msgspec.Struct):
    uuid: str
    evidences: list[msgspec.Raw]


class _Label(msgspec.Struct):
    relation: str
    label: str = ""


@dataclass(frozen=True, eq=False)
class Questions:
    """Questions about drawn facts, and the graph of all facts."""

    folder: Path
    study: DecoderStudy

    @cached_property
    def every(self) -> list[ClozeFact]:
        return trex_facts(self.folder)

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """All facts of T-REx with identifiers, by their labels."""
        return graph_from_records(self._records())

    def _records(self) -> Iterator[Record]:
        labels = read_rows(self.folder / "relations.jsonl", DamageReport(), _Label)
        for *_, row in labels:
            yield Text(row.relation, TextKind.LABEL, row.label or row.relation, "en", 0, True)
        names: dict[str, str] = {}
        for fact in self.every:
            names.setdefault(fact.head, fact.subject)
            names.setdefault(fact.tail, fact.answer)
            yield Triple(fact.head, fact.relation, fact.tail)
        for entity, name in names.items():
            yield Text(entity, TextKind.LABEL, name, "en")

    @cached_property
    def items(self) -> list[ClozeItem]:
        """The drawn facts in LAMA's words; other right answers do not compete."""
        facts = draw_facts(self.every, self.study.facts_per_relation, seed=self.study.seed)
        known = answers_by_subject(self.every)
        return questions(facts, lama_templates(self.folder), DamageReport(), known_answers=known)

    @cached_property
    def baseline(self) -> Majority:
        """The relation's most frequent object among the facts that are not asked for."""
        ids = {item.id for item in self.items}
        others = [(f.relation, f.answer) for f in self.every if f.id not in ids]
        return majority(self.items, others)

    @cached_property
    def objects(self) -> dict[str, list[str]]:
        """Candidates: the drawn facts' objects, then the most frequent others."""
        names_of, candidates = objects_of(self.items), {}
        for relation, names in names_of.items():
            ranked = [*names, *self.baseline.ranked.get(relation, ())]
            chosen = list(dict.fromkeys(ranked))[: max(self.study.n_objects, len(names))]
            candidates[relation] = sorted(chosen)
        return candidates

    @cached_property
    def n_sentences(self) -> list[int | None]:
        """How many sentences of T-REx state the fact of each item."""
        rows = read_rows(self.folder / "TREx", DamageReport(), _Stated)
        counts = {row.uuid: len(row.evidences) for *_, row in rows}
        return [counts.get(item.id) for item in self.items]

    def tables(self, result: ProbeResult) -> list[ProbeRow]:
        """All questions, the mean over relations, then by how many sentences state the fact."""
        draws = generator(self.study.seed, "intervals")
        options: dict[str, Any] = {"generator": draws, "baseline": self.baseline}
        bins = popularity_rows(result, "objects", self.n_sentences, bins=SENTENCES, **options)
        return [
            total_row(result, "objects", **options),
            macro_row(result, "objects", **options),
            *(dataclasses.replace(row, name=f"stated {row.name} times") for row in bins),
        ]


@dataclass(frozen=True)
class DecoderTrial(CellTrial):
    """The rows, each with other facts before the text; a cell is a file of answers."""

    questions: Questions
    host: Any
    tokenizer: Any
    folder: Path
    rows = (WEIGHTS, OTHERS, WITH_FACT)

    def seeds(self, row: str) -> Sequence[int]:
        """Nothing is drawn but the questions."""
        return (self.questions.study.seed,)

    def path(self, row: str, seed: int) -> Path:
        """See `CellTrial.path`."""
        return self.folder / f"{row.replace(' ', '-').replace(',', '')}.jsonl"

    def origin(self, row: str, seed: int) -> Origin:
        """Nothing: answers have no fingerprint."""
        return {}

    def read(self, row: str, seed: int) -> ProbeResult | None:
        """See `CellTrial.read`."""
        path = self.path(row, seed)
        return read_answers(path) if path.exists() else None

    def write(self, row: str, seed: int, cell: ProbeResult) -> None:
        """See `CellTrial.write`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_answers(cell, self.path(row, seed))

    def run(self, row: str, seed: int) -> ProbeResult:
        """Return the answers of a row."""
        questions, study = self.questions, self.questions.study
        graph = None if row == WEIGHTS else questions.graph
        model = DecoderLM(
            self.host, self.tokenizer, study.host, graph, row == WITH_FACT, study.n_facts
        )
        return probe(model, questions.items, vocabulary=None, objects=questions.objects)

    def results(self) -> dict[str, ProbeResult]:
        """Return the answers of every row, as they are read."""
        self.run_missing()
        return {row: of_row[self.questions.study.seed] for row, of_row in self.stored().items()}


def to_markdown(questions: Questions, results: dict[str, ProbeResult], command: str) -> str:
    """The page."""
    n = sum(len(names) for names in questions.objects.values()) / len(questions.objects)
    about = (
        f"{len(questions.items)} facts of {len(questions.objects)} relations, {n:.0f} candidates a "
        "relation. P@1 in per cent with 95 % intervals over facts."
    )
    rows = [
        [name, *_cells(row, sum(bool(answer.asked_shown) for answer in result.answers))]
        for name, result in results.items()
        for row in questions.tables(result)
    ]
    columns = (
        "answers", "questions", "asked", "scored", "fact shown", "P@1", "majority", "P@10", "MRR",
    )  # fmt: skip
    skipped = results[WEIGHTS].skipped("objects")
    title = f"LAMA's T-REx on SmolLM2\n<!-- written by {command} -->"
    notes = "\n".join(f"Skipped {n}: {reason}." for reason, n in skipped.items())
    return page_of(title, "", about, Table(columns, rows).markdown(), notes)


def _cells(row: ProbeRow, n_shown: int) -> list[object]:
    return [
        row.name, row.n_asked, row.n_scored, n_shown if row.name == "all" else "",
        score(dataclasses.asdict(row)),
        *(percent(value, NONE) for value in (row.majority, row.p_at_10, row.reciprocal)),
    ]  # fmt: skip


def run(study: DecoderStudy, arguments: argparse.Namespace) -> Results:
    """Run the missing rows; return the page and its numbers."""
    questions = Questions(data_root() / "lama", study)
    host, tokenizer = load_decoder(study.host), load_tokenizer(study.host)
    results = DecoderTrial(questions, host, tokenizer, arguments.out).results()
    rows = {
        name: [dataclasses.asdict(row) for row in questions.tables(result)]
        for name, result in results.items()
    }
    return to_markdown(questions, results, arguments.command), rows


if __name__ == "__main__":
    run_study(__doc__, DecoderStudy, run)
