"""The control of KEPLER: can a fact of an entity be predicted from its description alone?

The encoder learns knowledge embedding (`ke`) from triples of described entities. Then the triple
(head, occupation, ?) is completed for heads that no triple of training names, from their
descriptions, which say what a person does without naming the occupation.

Axis legend: head, class, entity.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from entity_linking.mentions import LinkedText
from kept import hosts
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import WordsView
from kept.inputs.views import builder_for
from kept.lab.reading.arms import arm
from kept.lab.reading.cell import SOLVED, Cell, Outcome, open_host
from kept.lab.reading.conditions import OFF, REDRAWN, TRUE, graph_under
from kept.lab.reading.measures import probe_accuracy, share_moved, steps_until
from kept.lab.reading.trial import N_GRADIENT, N_PROBE, Losses, Opened, training_of
from kept.lab.reading.worlds import COUNTRIES, OCCUPATIONS, WORKS, Size
from kept.methods import method
from kept.objectives.described_triples import entity_text, text_batch
from kept.objectives.knowledge_embedding import KnowledgeEmbedding, sequences_of, word_pieces
from kept.objectives.mentions.made_up import made_up_names
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator, torch_seed
from kept.training.loop import train
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph, graph_from_records
from kg_loaders.records import Record, Text, TextKind, Triple

OCCUPATION = "occupation"
AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class Described:
    """A world of described people: H0 and on, the first `n_known` of which have triples.

    `classes [head]` are those of the descriptions; `texts` are descriptions in which the words of
    the task are, for objectives that read texts.
    """

    graph: KnowledgeGraph
    classes: NDArray[np.int64]
    n_known: int
    texts: list[LinkedText]


def described_people(
    size: Size,
    seed: int,
    *,
    stated: Sequence[int] | None = None,
    known_only: bool = False,
    is_described: bool = True,
) -> Described:
    """The world of a seed; `stated [head]`: classes of the descriptions, if not the triples'.

    `known_only` leaves out the heads without triples.
    """
    draws = generator(seed, "reading control", "description")
    n_known, n = size.n_train_heads, size.n_train_heads + size.n_test
    names = made_up_names(n, draws)
    classes = draws.permutation(np.arange(n) % len(OCCUPATIONS))
    countries = draws.integers(len(COUNTRIES), size=n)
    records: list[Record] = []
    for i, name in enumerate(OCCUPATIONS):
        records.append(Text(f"C{i}", TextKind.LABEL, name, "en"))
    for i, name in enumerate(COUNTRIES):
        records.append(Text(f"D{i}", TextKind.LABEL, name, "en"))
    texts = []
    for i in range(n_known if known_only else n):
        description = f"{names[i]} {WORKS[int(classes[i] if stated is None else stated[i])]}."
        records.append(Text(f"H{i}", TextKind.LABEL, names[i], "en"))
        if is_described:
            records.append(Text(f"H{i}", TextKind.DESCRIPTION, description, "en"))
        texts.append(LinkedText(description, ()))
        if i < n_known:
            records.append(Triple(f"H{i}", OCCUPATION, f"C{classes[i]}"))
            records.append(Triple(f"H{i}", "citizen of", f"D{countries[i]}"))
    return Described(graph_from_records(records), classes, n_known, texts)


def run_descriptions(cell: Cell, opened: Opened | None = None) -> Outcome:
    """Train and measure a cell of this control.

    "redrawn" gives every person the description of another, sampled once per run. "off" and
    "anchors-only" leave no triples, so that nothing is trained. `probe` is of the state that
    descriptions are read by; `edited` gives heads of the training triples another description.
    """
    began, size, chosen = time.monotonic(), cell.size, arm(cell.arm)
    host, tokenizer = opened or open_host(cell.budget)
    others = None
    if cell.condition == REDRAWN:
        draws = generator(cell.seed, "descriptions of others")
        plain = described_people(size, cell.seed).classes
        others = plain[draws.permutation(len(plain))].tolist()
    world = described_people(size, cell.seed, stated=others)
    learned = described_people(size, cell.seed, stated=others, known_only=True)
    undescribed = described_people(size, cell.seed, is_described=False).graph
    graph = graph_under(learned.graph, cell.condition, cell.seed)
    objectives: Mapping[str, Any] = chosen.stage["objectives"]
    with torch.random.fork_rng():
        torch.manual_seed(torch_seed(cell.seed, "initial weights"))
        encoder = method(chosen.method).encoder.for_graph(
            host, graph, tokenizer, seed=cell.seed, **chosen.options
        )
        model = KnowledgeForPreTraining.of(encoder, objectives).eval()
    if not cell.budget.train_words:
        model.encoder.host.get_input_embeddings().requires_grad_(False)
    reader = _Reader(model, tokenizer, graph)
    unseen = np.arange(world.n_known, len(world.classes))
    before = _measured(reader, world, undescribed)
    curve = [(0, reader.accuracy(world, unseen))]
    losses: list[tuple[int, float]] = []
    gradients: tuple[dict[str, float], dict[str, float]] = ({}, {})
    stopped = 0
    if cell.condition != OFF and graph.n_triples:
        data = WordGraphData(
            learned.texts,
            graph,
            tokenizer,
            builder=builder_for(method(chosen.method), BuilderConfig(), {}),
            view=WordsView(),
            objectives=objectives,
            require_links=False,
        )

        def evaluate(trained: torch.nn.Module, step: int) -> dict[str, float]:
            curve.append((step, reader.accuracy(world, unseen[:96])))
            return {"accuracy": curve[-1][1]}

        first = _gradients(model, data)
        with tempfile.TemporaryDirectory(prefix="kept-reading-") as folder:
            result = train(
                model,
                data,
                training_of(cell, cell.budget.steps, batch_size=4),
                Path(folder),
                evaluate=evaluate,
                reporter=Losses(losses, cell.budget.every),
                should_stop=lambda: len(curve) > 2 and min(c for _, c in curve[-2:]) >= SOLVED,
            )
        gradients, stopped = (first, _gradients(model, data)), result.step
    after = _measured(reader, world, undescribed)
    return Outcome(
        task=cell.task,
        arm=cell.arm,
        condition=cell.condition,
        seed=cell.seed,
        accuracy=reader.accuracy(world, unseen),
        n=len(unseen),
        chance=1 / len(OCCUPATIONS),
        n_classes=len(OCCUPATIONS),
        curve=curve,
        losses=losses,
        until_good=steps_until(curve, 0.9),
        probe=(before[0], after[0]),
        moved=(before[1], after[1]),
        gradients=gradients,
        edited=_edited(reader, world, size, cell.seed) if cell.condition == TRUE else None,
        stopped_at=stopped,
        steps=cell.budget.steps,
        seconds=time.monotonic() - began,
        settings=cell.settings,
    )


@dataclass(frozen=True, eq=False)
class _Reader:
    """Encodes entities by their descriptions and completes their triples."""

    model: KnowledgeForPreTraining
    tokenizer: PreTrainedTokenizerBase
    learned: KnowledgeGraph

    def scores(self, graph: KnowledgeGraph, heads: Tensor) -> Tensor:
        """Scores `[head class]` of each occupation as that of the heads, rows of `graph`."""
        objective, relation = self._objective, self.learned.relations.find(OCCUPATION)
        tails = torch.tensor([graph.entities.find(f"C{i}") for i in range(len(OCCUPATIONS))])
        row = objective.relations.detach()[0 if relation is None else relation].float()
        return objective.score(self.vectors(graph, heads)[:, None], row, self.vectors(graph, tails))

    @property
    def _objective(self) -> KnowledgeEmbedding:
        objective = self.model.objectives["ke"]
        assert isinstance(objective, KnowledgeEmbedding)
        return objective

    @torch.no_grad()
    def vectors(self, graph: KnowledgeGraph, entities: Tensor) -> Tensor:
        """The state by which the text of each of `entities` is read, `[entity width]`."""
        options, encoder = self._objective.options, self.model.encoder
        rules = sequences_of(options, self.tokenizer)
        texts = [entity_text(graph, i, options.read) for i in entities.tolist()]
        pieces = word_pieces(texts, self.tokenizer, options.n_tokens)
        rows, pad_id = [rules.entity(each) for each in pieces], hosts.padding_id(self.tokenizer)
        was_training = encoder.training
        encoder.eval()
        vectors = [
            encoder(text_batch(rows[start : start + AT_ONCE], pad_id=pad_id)).node_states[:, 0]
            for start in range(0, len(rows), AT_ONCE)
        ]
        encoder.train(was_training)
        return torch.cat(vectors).float()

    def accuracy(self, world: Described, heads: NDArray[np.int64]) -> float:
        """The share of `heads` whose best occupation is their class."""
        return float((self.best(world.graph, heads) == world.classes[heads]).mean())

    def best(self, graph: KnowledgeGraph, heads: NDArray[np.int64]) -> NDArray[np.int64]:
        """The best occupation of each head."""
        return self.scores(graph, _rows(graph, heads)).argmax(1).numpy()


def _rows(graph: KnowledgeGraph, heads: NDArray[np.int64]) -> Tensor:
    return torch.tensor([graph.entities.find(f"H{i}") for i in heads.tolist()])


def _measured(
    reader: _Reader, world: Described, undescribed: KnowledgeGraph
) -> tuple[float, float]:
    """Linear probe of the heads' vectors, and their shift in the graph `undescribed`."""
    known = np.arange(min(world.n_known, N_PROBE))
    unseen = np.arange(world.n_known, len(world.classes))
    states = [reader.vectors(world.graph, _rows(world.graph, heads)) for heads in (known, unseen)]
    classes = torch.from_numpy(world.classes)
    probe = probe_accuracy((states[0], classes[known]), (states[1], classes[unseen]))
    return probe, share_moved(states[1], reader.vectors(undescribed, _rows(undescribed, unseen)))


def _gradients(model: KnowledgeForPreTraining, data: WordGraphData) -> dict[str, float]:
    """Norms of the knowledge loss's gradient: in the host, and in the relation table."""
    samples = [data.sample(i, epoch=0, seed=0) for i in range(min(4, N_GRADIENT, len(data)))]
    batch = data.collate(samples, epoch=0, seed=0, step=0)
    model.zero_grad(set_to_none=True)
    model.eval()
    model(batch).losses["ke"].backward()
    groups: dict[str, float] = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            part = "host" if name.startswith("encoder.host.") else "knowledge"
            groups[part] = groups.get(part, 0.0) + float(parameter.grad.square().sum())
    model.zero_grad(set_to_none=True)
    return {name: value**0.5 for name, value in groups.items()}


def _edited(reader: _Reader, world: Described, size: Size, seed: int) -> dict[str, float]:
    """Give heads of the training triples another description, and complete their triples again."""
    draws = generator(seed, "edited facts")
    items = np.arange(min(size.n_test, world.n_known))
    stated = world.classes.copy()
    stated[items] = (stated[items] + draws.integers(1, len(OCCUPATIONS), len(items))) % len(
        OCCUPATIONS
    )
    answers = reader.best(described_people(size, seed, stated=stated.tolist()).graph, items)
    return {
        "new": float((answers == stated[items]).mean()),
        "old": float((answers == world.classes[items]).mean()),
        "n": len(items),
    }
