"""Decoders as probed models: the answer at the end of the text, all candidates in one pass.

The candidates are branches of the text, as K-BERT's facts are branches of a sentence: a tree of
their pieces, each read behind the text and the pieces before it. An answer's score is the mean
log-probability of its pieces in their order, so that long answers are not penalised. Facts of the
subject stand before the text, in words.

Axis legend: node, word (of the vocabulary), candidate, piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from kept import decoders, hosts
from kept.batches import Visibility
from kept.decoders import FAMILIES, load_decoder
from kept.lab.probing.candidates import Candidates, Pieces
from kept.lab.probing.items.item import ClozeItem
from kept.lab.probing.models.base import AskedFacts
from kept.lab.probing.passes import Attempt, rank_objects
from kept.lab.probing.ranks import rank_answers
from kept.lab.probing.results import Mode
from kept.model_settings import model_type_of
from kg_loaders import KnowledgeGraph

NOT_AT_THE_END = "a decoder answers at the end of the text, and more follows here"
N_FACTS = 8


def is_decoder(name: str | Path) -> bool:
    """Whether a name is `smollm2`, or a folder holds a decoder of a known family."""
    return str(name) == "smollm2" or model_type_of(name) in FAMILIES


@dataclass(frozen=True, eq=False)
class DecoderLM:
    """A decoder host that is asked at the end of texts.

    With a `graph`, up to `n_facts` facts of an item's subject stand before its text, in the graph's
    order; those that join the ends of the item's own fact only if `show_asked`.
    """

    host: PreTrainedModel
    tokenizer: Any
    name: str
    graph: KnowledgeGraph | None = None
    show_asked: bool = False
    n_facts: int = N_FACTS
    method = "decoder"

    @classmethod
    def open(
        cls, name: str | Path, graph: KnowledgeGraph | None = None, *, show_asked: bool = False
    ) -> DecoderLM:
        """The decoder in a folder, or `smollm2`; raises as `load_decoder`."""
        tokenizer = hosts.load_tokenizer(str(name))
        return cls(load_decoder(name), tokenizer, str(name), graph, show_asked)

    @property
    def mode(self) -> Mode:
        """Whether facts are written before the text."""
        return "weights" if self.graph is None else "graph"

    @property
    def asked_facts(self) -> AskedFacts:
        """What becomes of the facts that are asked for."""
        if self.graph is None:
            return "none"
        return "shown" if self.show_asked else "hidden"

    def prompt(self, item: ClozeItem) -> tuple[str, bool] | None:
        """The text up to the hole, facts first, and whether they hold the one that is asked for.

        None where more than a stop follows the hole.
        """
        text = item.linked.text
        if text[item.hole.end :].strip(" ."):
            return None
        context, query = self._prompt(item)
        return f"{context}{text[: item.hole.start].rstrip()}", query

    def _prompt(self, item: ClozeItem) -> tuple[str, bool]:
        graph = self.graph
        head = None if graph is None or not item.fact else graph.entities.find(item.fact[0])
        if graph is None or head is None or not item.fact:
            return "", False
        tail, context, has_asked = graph.entities.find(item.fact[2]), "", False
        for number, (_, relation, other) in enumerate(self._facts(graph, head, tail)):
            if number == self.n_facts:
                break
            has_asked |= other == tail
            subject, label = graph.label(head), graph.relation_label(relation)
            context += f"{subject} {label} {graph.label(other)}. "
        return context, has_asked

    def _facts(
        self, graph: KnowledgeGraph, head: int, tail: int | None
    ) -> list[tuple[int, int, int]]:
        rows = [(int(h), int(r), int(t)) for h, r, t in graph.outgoing(head)]
        return [row for row in rows if self.show_asked or row[2] != tail]


@dataclass(frozen=True, eq=False)
class PieceTree:
    """The pieces of candidates but the last of each, as a tree.

    `parents [node]` (-1: the text), `pieces [node]`; `paths` of each candidate: the nodes after
    which its pieces are read, the first of them -1.
    """

    parents: tuple[int, ...]
    pieces: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, candidates: Sequence[Pieces]) -> PieceTree:
        """The tree of these candidates; what begins alike shares nodes.

        >>> PieceTree.of([(5,), (6, 7, 8), (6, 7, 9)])
        PieceTree(parents=(-1, 0), pieces=(6, 7), paths=((-1,), (-1, 0, 1), (-1, 0, 1)))
        """
        nodes: dict[tuple[int, int], int] = {}
        paths = []
        for candidate in candidates:
            path = [-1]
            for piece in candidate[:-1]:
                path.append(nodes.setdefault((path[-1], piece), len(nodes)))
            paths.append(tuple(path))
        return cls(tuple(p for p, _ in nodes), tuple(piece for _, piece in nodes), tuple(paths))


class DecoderRunner:
    """Ranks the answers of a decoder, one text a pass."""

    def __init__(self, model: DecoderLM, words: Candidates | None, *, n_top: int) -> None:
        self.model, self.words, self.n_top = model, words, n_top
        self._trees: dict[int, PieceTree] = {}

    @torch.inference_mode()
    def run(self, chunk: Sequence[Attempt]) -> None:
        """Fill in the rankings of a chunk."""
        for attempt in chunk:
            prompt = self.model.prompt(attempt.item)
            if prompt is None:
                for ranking in [*attempt.contests]:
                    attempt.skip(ranking, NOT_AT_THE_END)
            elif attempt.contests:
                text, attempt.asked_shown = prompt
                self._read(attempt, text)
        rank_objects(chunk, self.n_top)

    def _read(self, attempt: Attempt, text: str) -> None:
        objects, tree = attempt.contests.get("objects"), PieceTree((), (), ())
        if objects is not None:
            tree = self._trees.setdefault(
                id(objects.candidates), PieceTree.of(objects.candidates.pieces)
            )
        ids = self.model.tokenizer(text)["input_ids"]
        chances = log_chances(self.model.host, ids, tree)
        if objects is not None:
            pairs = zip(tree.paths, objects.candidates.pieces, strict=True)
            means = [
                chances[[n + 1 for n in path], list(columns)].mean() for path, columns in pairs
            ]
            attempt.scores = torch.stack(means)
        restricted = attempt.contests.get("restricted")
        if restricted is not None and self.words is not None:
            listed = [pieces[0] for pieces in self.words.pieces]
            (attempt.rankings["restricted"],) = rank_answers(
                chances[0, listed][None],
                [restricted.gold],
                [restricted.others],
                self.words.names,
                n_top=self.n_top,
            )


def log_chances(
    host: PreTrainedModel, text: Sequence[int], tree: PieceTree
) -> Float[Tensor, "node word"]:
    """Log-probabilities of the next word after the text, then after every node of the tree."""
    n_text, n_nodes = len(text), len(tree.parents)
    mask = torch.zeros(n_text + n_nodes, n_text + n_nodes, dtype=torch.bool)
    mask[:n_text, :n_text] = torch.ones(n_text, n_text, dtype=torch.bool).tril()
    positions = list(range(n_text))
    for node, parent in enumerate(tree.parents):
        before = n_text + parent if parent >= 0 else n_text - 1
        mask[n_text + node] = mask[before]
        mask[n_text + node, n_text + node] = True
        positions.append(positions[before] + 1)
    ids = torch.tensor([[*text, *tree.pieces]], device=host.device)
    position_ids = torch.tensor([positions], device=host.device)
    hidden = decoders.embed(host, host.get_input_embeddings()(ids), position_ids)
    visibility = Visibility(mask[None].to(host.device))
    states = decoders.run(host, hidden, visibility, position_ids)[-1][0, n_text - 1 :]
    return decoders.logits(host, states).float().log_softmax(-1).cpu()
