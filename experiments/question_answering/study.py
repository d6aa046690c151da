"""The study: every row under every condition, a file each; what is there is not done again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from experiments.kblam.world import VALUES, PrivateWorld, private_world
from experiments.question_answering.questions import (
    ANOTHER,
    CONDITIONS,
    EDITED,
    OFF,
    SHUFFLED,
    TRUE,
    Asked,
    is_right,
)
from experiments.question_answering.readers import (
    AdapterReader,
    KBLaMReader,
    Reader,
    SoftPromptReader,
    TreeReader,
    asked,
)
from experiments.question_answering.training import (
    ReadingPlan,
    RememberingPlan,
    Shop,
    SoftPromptPlan,
    reading_lora,
    reading_prompt,
    remembering_adapter,
    remembering_lora,
)
from kept.decoders.kblam.files import load_kblam
from kept.decoders.kblam.knowledge_base import facts_of_graph
from kept.decoders.kblam.wording import Fact
from kept.decoders.soft_prompts import LabelSentences
from kept.linking.sentences import HostSentenceEncoder
from kept.training.config import RunConfig
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.writing import write_json

SHOWN = (TRUE, ANOTHER, SHUFFLED, EDITED)


class QuestionStudy(RunConfig):
    """`n_bearers` of the test world are asked for, four questions each; `seeds` of the trainings.

    `vectors_from` is the sentence encoder of soft prompts, and of the KBLaM that `--kblam` names.
    `rows` are those to be made, by name; all where there are none.
    """

    host: str
    vectors_from: str
    world_seed: NonNegativeInt
    n_train: PositiveInt
    n_test: PositiveInt
    n_bearers: PositiveInt
    seeds: list[NonNegativeInt]
    reading: ReadingPlan
    remembering: RememberingPlan
    adapter: RememberingPlan
    soft_prompt: SoftPromptPlan
    rows: list[str] = Field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """A way of giving facts: `make` a reader of a seed and a condition, for each of `seeds`."""

    name: str
    conditions: tuple[str, ...]
    seeds: Sequence[int]
    make: Callable[[int, str], Reader]


@dataclass(frozen=True, eq=False)
class Bench:
    """The study's host and world, and its folder; `kblam` is the folder of a trained one."""

    study: QuestionStudy
    host: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    folder: Path
    kblam: Path | None = None
    announce: Callable[[str], None] = field(default=lambda text: None)

    @cached_property
    def world(self) -> PrivateWorld:
        """The bearers that are trained on, and those that are asked for."""
        study = self.study
        return private_world(study.world_seed, n_train=study.n_train, n_test=study.n_test)

    @cached_property
    def test(self) -> Asked:
        """The questions."""
        return Asked(self.world.test, self.study.n_bearers, self.study.world_seed)

    @cached_property
    def train(self) -> Asked:
        """Questions about other bearers."""
        return Asked(self.world.train, self.study.n_train, self.study.world_seed)

    @cached_property
    def shop(self) -> Shop:
        """Where trainings are made."""
        return Shop(self.host, self.tokenizer, self.folder / "weights", self.announce)

    def rows(self) -> Iterator[Row]:
        """All rows, cheapest first."""
        first = self.study.seeds[:1]
        yield Row("host alone", (OFF,), first, lambda s, c: self._tree("words"))
        yield Row("words", SHOWN, first, lambda s, c: self._tree("words"))
        for kind in ("branches", "nodes"):
            yield Row(kind, SHOWN, first, lambda s, c, k=kind: self._tree(k))
        for kind in ("branches", "nodes"):
            name = f"{kind}, read at the mention"
            yield Row(
                name, (TRUE,), first,
                lambda s, c, k=kind: TreeReader(self.host, self.tokenizer, k, "mention"),
            )  # fmt: skip
        seeds = self.study.seeds
        yield Row("LoRA on triples", (TRUE, SHUFFLED, EDITED), seeds, self._remembered)
        yield Row("adapter on triples", (TRUE, SHUFFLED, EDITED), seeds, self._adapted)
        for kind in ("words", "branches", "nodes"):
            yield Row(
                f"{kind}, LoRA", CONDITIONS, seeds, lambda s, c, k=kind: self._taught(s, k)
            )  # fmt: skip
        yield Row("soft prompt", CONDITIONS, seeds, lambda s, c: self._prompted(s))
        if self.kblam is not None:
            yield Row("KBLaM", CONDITIONS, first, lambda s, c: self._kblam())

    def _tree(self, kind: str) -> Reader:
        return TreeReader(self.host, self.tokenizer, kind)

    def _taught(self, seed: int, kind: str) -> Reader:
        host = reading_lora(
            self.shop, f"{kind}-{seed}", kind, self.train, self.study.reading, seed
        )  # fmt: skip
        return TreeReader(host, self.tokenizer, kind)

    def _prompted(self, seed: int) -> Reader:
        encoder = HostSentenceEncoder(self.study.vectors_from)
        prompter = reading_prompt(
            self.shop, f"prompt-{seed}", self.train, LabelSentences.of(self.train.graph, encoder),
            self.study.soft_prompt, seed,
        )  # fmt: skip
        vectors = LabelSentences.of(self.test.graph, encoder)
        return SoftPromptReader(self.host, self.tokenizer, prompter, vectors)

    def _remembered(self, seed: int, condition: str) -> Reader:
        told, facts = self._told(condition)
        name = f"remembered-{told}-{seed}"
        host = remembering_lora(self.shop, name, facts, self.study.remembering, seed)
        return AloneReader(TreeReader(host, self.tokenizer, "words"))

    def _adapted(self, seed: int, condition: str) -> Reader:
        told, facts = self._told(condition)
        name = f"adapter-{told}-{seed}"
        adapter = remembering_adapter(self.shop, name, facts, self.study.adapter, seed)
        return AdapterReader(self.host, self.tokenizer, adapter)

    def _told(self, condition: str) -> tuple[str, list[Fact]]:
        """What is trained on: the facts that are asked for, or what shuffling made of them."""
        told = SHUFFLED if condition == SHUFFLED else TRUE
        graph = self.test.under(told)[0]
        values = {(fact.name, fact.relation): fact for fact in facts_of_graph(graph)}
        return told, [values[fact.name, fact.relation] for fact in self.test.facts]

    def _kblam(self) -> Reader:
        assert self.kblam is not None
        model = load_kblam(self.kblam, self.host)
        encoder = HostSentenceEncoder(self.study.vectors_from)
        return KBLaMReader(model, self.tokenizer, encoder, len(self.test.facts))

    # ---- cells -----------------------------------------------------------------------------------
    def cell(self, row: Row, condition: str, seed: int) -> dict[str, Any]:
        """The answers of a row under a condition, from the run's folder if they are there."""
        path = self.folder / "cells" / f"{row.name}.{condition}.{seed}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, self._made(row.make(seed, condition), condition))
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        exact, chosen = np.mean(found["exact"]), np.mean(found["chosen"])
        self.announce(f"{row.name}, {condition}, {seed}: exact {exact:.2f}, chosen {chosen:.2f}")
        return found

    def _made(self, reader: Reader, condition: str) -> dict[str, Any]:
        graph, texts, right = self.test.under(condition)
        found = asked(reader, self.tokenizer, graph, texts)
        pairs = zip(self.test.facts, found.scores, strict=True)
        chosen = [self._chosen(fact, scores) for fact, scores in pairs]
        return {
            "exact": [is_right(w, v) for w, v in zip(found.texts, right, strict=True)],
            "chosen": [c == v for c, v in zip(chosen, right, strict=True)],
            "nodes": round(found.nodes, 1),
            "cpu_ms": round(found.cpu_ms, 1),
            "written": list(found.texts[:4]),
            "right": right[:4],
        }

    def _chosen(self, fact: Fact, scores: Any) -> str:
        """The value of the relation whose first piece is most probable."""
        values = VALUES[fact.relation]
        pieces = [
            self.tokenizer(f" {value}", add_special_tokens=False)["input_ids"][0]
            for value in values
        ]
        if len(set(pieces)) < len(pieces):
            raise ValueError(f"values of {fact.relation} begin alike: {values}")
        return values[int(scores[pieces].argmax())]


@dataclass(frozen=True, eq=False)
class AloneReader:
    """A reader without facts in view, whatever the links."""

    reader: TreeReader

    def __call__(self, graph: KnowledgeGraph, texts: Sequence[Any]) -> Any:
        bare = [type(text)(text.text, ()) for text in texts]
        return self.reader(graph, bare)


def run(bench: Bench) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Every cell: row, condition, one for each seed."""
    return {
        row.name: {
            condition: [bench.cell(row, condition, seed) for seed in row.seeds]
            for condition in row.conditions
        }
        for row in bench.rows()
        if row.name in (bench.study.rows or [row.name])
    }
