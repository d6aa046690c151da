"""Who reads a text: a method's view of it, or a fine-tuned run, which answers too.

Axis legend: node, triple.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from entity_linking.mentions import LinkedText, Linker
from kept.batches import KnowledgeBatch
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.drawing.draw import draw_svg
from kept.graphs.drawing.form import form_of
from kept.graphs.drawing.form_svg import draw_form
from kept.graphs.drawing.layout import WIDTH
from kept.graphs.explain import fact_in_words, links_left_out
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.views import CoLAKEView, View
from kept.inputs.views import builder_for, view_for
from kept.methods import METHODS, Method, title
from kept.randomness import generator
from kept.tasks.datasets.example import question
from kept.tasks.datasets.formats import TaskExample
from kept.training.finetuning.predictor import Predictor
from kg_loaders import KnowledgeGraph

N_SCORES = 12
MOST_FACTS = 60
N_CHARACTERS = 240
"""Characters of a label, a description or a fact that are sent to the page."""
BUILDER = BuilderConfig(policy="degree", max_neighbours=4, drop_probability=0.0)
"""How texts are shown to a method without a run: the facts of the best-known entities first."""


@dataclass(frozen=True, eq=False)
class Reader:
    """One choice of the page: `key` names it in requests; a run has a `predictor`."""

    key: str
    name: str
    method: Method
    tokenizer: PreTrainedTokenizerBase
    predictor: Predictor | None = None

    @property
    def n_targets(self) -> int:
        """How many stretches of the text the run's task asks about."""
        if self.predictor is None:
            return 0
        return int(self.predictor.model.config.head.get("n_targets", 0))

    def about(self) -> dict[str, Any]:
        """What the page says of it."""
        predictor = self.predictor
        return {
            "key": self.key,
            "name": self.name,
            "is_run": predictor is not None,
            "enters": self.method.enters,
            "reads_facts": self.method.reads_facts and self.method.shows_facts,
            "n_targets": self.n_targets,
            "classes": [] if predictor is None else list(predictor.model.question().labels)[:200],
        }

    def example(self, linked: LinkedText, targets: Sequence[tuple[int, int]]) -> TaskExample:
        """Return the text with the stretches that the task asks about.

        Raises `ConfigError` where they are too many, too few, or not in the text.
        """
        for start, end in targets:
            if not start < end <= len(linked.text):
                raise ConfigError(f"characters {start} to {end} are not in the text")
        return question(linked, *targets[: self.n_targets])

    def read(
        self,
        linked: LinkedText,
        graph: KnowledgeGraph,
        targets: Sequence[tuple[int, int]],
        linker: Linker,
        *,
        narrow: bool = False,
    ) -> dict[str, Any]:
        """Return the picture, the facts and, of a run, the answer, as the page takes them."""
        answer = None
        if self.predictor is not None:
            reading = self.predictor.read(self.example(linked, targets), graph, linker)
            built, batch, view = reading.word_graph, reading.batch, reading.view
            answer = answer_of(reading.label, reading.scores)
        else:
            view = view_for(self.method, graph, self.tokenizer, {})
            config = builder_for(self.method, BUILDER, {})
            draws = generator(0, "explorer", "graph")
            built = build(linked, self.tokenizer, graph, generator=draws, config=config)
            batch = view(built)
        if isinstance(view, CoLAKEView):
            svg = draw_svg(built, graph, self.tokenizer)
        else:
            columns = form_of(built, batch, view, graph, self.tokenizer)
            svg = draw_form(columns, self.name, page_width=WIDTH // 2 if narrow else WIDTH)
        facts = facts_of(linked, built, batch, view, graph)
        return {
            "reader": self.key,
            "svg": svg,
            "summary": [
                *_own_options(self.predictor),
                *_summary(self.method, built, batch, view),
                *(_facts_read(linked, facts, graph) if self.method.shows_facts else ()),
            ],
            "pieces": int((built.kinds == NodeKind.WORD).sum()),
            "facts": facts,
            "answer": answer,
        }


def method_readers(tokenizer: PreTrainedTokenizerBase) -> list[Reader]:
    """Every line of the table of methods, as a view without weights."""
    return [Reader(key, title(key), method, tokenizer) for key, method in METHODS.items()]


def run_reader(folder: str | Path, number: int) -> Reader:
    """A `kept finetune` run; raises `CheckpointError` for any other folder."""
    predictor = Predictor.from_pretrained(folder)
    key = next(key for key, each in METHODS.items() if each is predictor.method)
    name = f"{Path(folder).name} ({title(key)}, {predictor.task})"
    return Reader(f"run{number}", name, predictor.method, predictor.tokenizer, predictor)


def answer_of(label: str, scores: Mapping[str, float]) -> dict[str, Any]:
    """The answer and the best of its scores."""
    best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:N_SCORES]
    return {"label": label, "scores": [{"name": n, "score": s} for n, s in best]}


def cut(text: str) -> str:
    """Return a label or description as long as the page shows it."""
    return text if len(text) <= N_CHARACTERS else text[: N_CHARACTERS - 1] + "…"


def facts_of(
    linked: LinkedText,
    built: WordKnowledgeGraph,
    batch: KnowledgeBatch,
    view: View,
    graph: KnowledgeGraph,
) -> list[dict[str, Any]]:
    """Return the facts of the linked entities: `read` are those that the view puts in the input."""
    is_read = {}
    for node in np.flatnonzero(built.kinds == NodeKind.RELATION).tolist():
        row = int(built.origins[node, 1])
        if row >= 0:
            is_read[row] = len(view.fact_nodes(built, batch, node)) > 0
    rows = dict.fromkeys([*(row for row, seen in is_read.items() if seen), *is_read])
    for link in linked.links:
        entity = None if link.entity is None else graph.entities.find(link.entity)
        if entity is not None:
            start, stop = graph.out_offsets[entity], graph.out_offsets[entity + 1]
            rows |= dict.fromkeys(range(int(start), min(int(stop), int(start) + MOST_FACTS)))
    return [
        {
            "fact": list(names_of(graph, row)),
            "words": cut(fact_in_words(graph, row)),
            "read": is_read.get(row, False),
        }
        for row in list(rows)[:MOST_FACTS]
    ]


def names_of(graph: KnowledgeGraph, row: int) -> tuple[str, str, str]:
    """Return head, relation and tail of the fact in `row`, by identifiers."""
    head, relation, tail = graph.triples[row].tolist()
    return graph.entities.name(head), graph.relations.name(relation), graph.entities.name(tail)


def _own_options(predictor: Predictor | None) -> list[str]:
    """What a run changed of its method's view, of which the rest is told as published."""
    if predictor is None or not predictor.view:
        return []
    settings = ", ".join(f"{name} {value}" for name, value in sorted(predictor.view.items()))
    return [f"This run differs from the method as published below: {settings}."]


def _summary(
    method: Method, built: WordKnowledgeGraph, batch: KnowledgeBatch, view: View
) -> list[str]:
    """What stands in the picture, and what does not."""
    n_words = int((built.kinds == NodeKind.WORD).sum())
    lines = [f"Knowledge enters by {method.enters}." if view.reads_graph else
             f"Knowledge enters here: {method.enters}. The input is the words alone."]  # fmt: skip
    n_nodes = int(batch.node_mask.sum())
    lines.append(f"{n_nodes} nodes in the input, {n_words} of them word pieces of the text.")
    if view.reads_graph and not view.contains_knowledge(built, batch):
        lines.append("Nothing of the graph reaches this input: no mention is linked, or the linked "
                     "entities have nothing that this method reads.")  # fmt: skip
    if method.shows_facts:
        lines += links_left_out(built)
    return lines


def _facts_read(
    linked: LinkedText, facts: Sequence[Mapping[str, Any]], graph: KnowledgeGraph
) -> list[str]:
    """How many of the facts about linked entities the view reads, where it does not read all."""
    entities = {
        graph.entities.find(link.entity) for link in linked.links if link.entity is not None
    }
    heads = [head for head in entities if head is not None]
    n_all = sum(int(graph.out_offsets[head + 1] - graph.out_offsets[head]) for head in heads)
    names = {graph.entities.name(head) for head in heads}
    n_read = sum(fact["read"] and fact["fact"][0] in names for fact in facts)
    if n_read == n_all:
        return []
    count, known = f"{n_read} of the {n_all} facts", "the graph has about the linked names"
    return [f"The model is shown {count} that {known}."]


def with_choices(linked: LinkedText, choices: Mapping[tuple[int, int], str | None]) -> LinkedText:
    """Return `linked` with the entities that a person chose for some mentions, at confidence 1."""
    links = [
        dataclasses.replace(link, entity=choices[span], confidence=1.0)
        if (span := (link.mention.start, link.mention.end)) in choices
        else link
        for link in linked.links
    ]
    return dataclasses.replace(linked, links=tuple(links))
