"""`CrossScorer`: a mention in its context and a card, read together by a host's first layers.

    s(m, c) = w . h[CLS]      h = layers("left | surface | right" [SEP] card)

A cross-encoder over the best few candidates (Wu et al. 2020, EMNLP, section 4.3), which a
bi-encoder or names have proposed; it is as slow as it is close, so only `most` of a mention's
candidates are read. Trained by `kept.linking.matching.cross_training`.

Axis legend: pair, piece, width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from entity_linking.dense.cards import CardOptions, cards
from entity_linking.dense.context import contexts_of
from entity_linking.errors import LinkIndexError
from entity_linking.mentions import LinkedText
from entity_linking.parts import Scores
from kept.errors import ConfigError
from kept.hosts import load_host, load_tokenizer
from kept.linking.first_layers import FirstPosition, cut, embeddings_hash
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.columns import replaced
from kg_loaders.disk.seals import FolderFormat, open_sealed, seal
from kg_loaders.disk.writing import whole_folder

WEIGHTS = "weights.safetensors"
CROSS = FolderFormat(
    kind="kept cross-encoder",
    version=2,
    what="a cross-encoder",
    remedy="train it again: kept link train-encoder --cross",
    make="train one: kept link train-encoder --cross",
    mark=WEIGHTS,
    error=LinkIndexError,
)
PAIRS_PER_BATCH = 64
MOST_REMEMBERED = 200_000
UNREAD = 1.0
"""How far what is not read stays below the worst candidate that is."""

Pair = tuple[str, str]
"""The context of a mention, marked, and a card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossRecord:
    """What a cross-encoder was made from and how it went; stands in its manifest.

    `host_hash` is that of the host's embeddings, which are read from the host again. `before` says
    how often the candidate with the best prior is the right one of those that are read, `after`
    how often the one with the best score is, both of held-out mentions.
    """

    host: str
    host_hash: str
    n_layers: int
    window: int
    most: int
    most_pieces: int
    trained_on: str
    n_mentions: int
    n_epochs: int
    seed: int
    before: float
    after: float


class CrossNetwork(nn.Module):
    """`n_layers` of `host` (cut in place) and one number for each pair.

    Of the last layer nothing is read but the first position, so no other is computed there.
    """

    def __init__(self, host: PreTrainedModel, *, n_layers: int) -> None:
        super().__init__()
        cut(host, n_layers)
        stack: Any = host.encoder.layer  # `cut` has refused families that name it otherwise
        stack[-1] = FirstPosition(stack[-1])
        self.host = host
        self.score = nn.Linear(int(host.config.hidden_size), 1)
        nn.init.normal_(self.score.weight, std=0.02)
        nn.init.zeros_(self.score.bias)

    def trained(self) -> dict[str, Tensor]:
        """The weights that training changes, by name."""
        state = self.state_dict()
        return {
            name: state[name].detach()
            for name in sorted(state)
            if not name.startswith("host.embed")
        }

    def load_trained(self, weights: dict[str, Tensor]) -> None:
        """Take over what `trained` gave; `RuntimeError` when names or shapes differ."""
        if weights.keys() != self.trained().keys():
            raise RuntimeError(f"weights {sorted(weights.keys() ^ self.trained().keys())} differ")
        self.load_state_dict(weights, strict=False)

    def forward(self, pieces: dict[str, Tensor]) -> Tensor:
        """Scores `[pair]` of what the tokenizer made of pairs."""
        states = self.host(**pieces).last_hidden_state
        scores: Tensor = self.score(states[:, 0]).squeeze(1)
        return scores


class CrossScorer:
    """A `Scorer`; see the module. `graph` gives the cards."""

    def __init__(
        self,
        network: CrossNetwork,
        tokenizer: PreTrainedTokenizerBase,
        record: CrossRecord,
        graph: KnowledgeGraph,
        options: CardOptions = CardOptions(),  # noqa: B008 - frozen
    ) -> None:
        self._network, self._tokenizer = network.eval(), tokenizer
        self.record, self._options = record, options
        self._cards = Cards(graph, options)

    def __repr__(self) -> str:
        about = self.record
        return f"CrossScorer({about.host}, {about.n_layers} layers, best {about.most})"

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """As `Scorer`: of candidates that are not read one less than of the worst that is."""
        pairs, limits = pairs_of(texts, self._cards, self.record)
        distinct = list(dict.fromkeys(pairs))
        values = dict(zip(distinct, self._run(distinct).tolist(), strict=True))
        read = np.array([values[pair] for pair in pairs], np.float64)
        part_scores = iter(np.split(read, limits[1:-1]) if len(limits) > 1 else [])
        return [
            [_filled(next(part_scores), len(k.candidates)) for k in text.links] for text in texts
        ]

    @torch.inference_mode()
    def _run(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        values = np.zeros(len(pairs), np.float64)
        if not pairs:
            return values
        most = self.record.most_pieces
        pieces = self._tokenizer(
            *map(list, zip(*pairs, strict=True)), truncation=True, max_length=most
        )
        order = np.argsort(
            [len(pieces_of) for pieces_of in pieces["input_ids"]], kind="stable"
        ).tolist()
        for at in range(0, len(order), PAIRS_PER_BATCH):
            some = order[at : at + PAIRS_PER_BATCH]
            pieces_of = {name: [rows[i] for i in some] for name, rows in pieces.items()}
            batch = dict(self._tokenizer.pad(pieces_of, return_tensors="pt"))
            values[some] = self._network(batch).double().numpy()
        return values

    # ---- disk --------------------------------------------------------------
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the folder, all or nothing; weights in half precision. Raises `WriteError`."""
        weights = {n: value.half().contiguous() for n, value in self._network.trained().items()}
        about = {
            "record": msgspec.to_builtins(self.record),
            "cards": msgspec.to_builtins(self._options),
        }
        with whole_folder(path, **replaced(CROSS), force=force) as part:
            (part / WEIGHTS).write_bytes(save(weights))
            seal(part, CROSS, about, [WEIGHTS])

    @classmethod
    def open(cls, path: str | Path, graph: KnowledgeGraph) -> CrossScorer:
        """Open a folder written by `save`; `LinkIndexError` when it is damaged."""
        folder = Path(path)
        sealed = open_sealed(folder, CROSS)
        sealed.require_files([WEIGHTS])
        about = sealed.about(_About)
        record = about.record
        try:
            network = new_network(record.host, record.n_layers)
            network.load_trained(load((folder / WEIGHTS).read_bytes()))
        except (SafetensorError, RuntimeError, ConfigError) as error:
            raise LinkIndexError(f"{folder} does not hold its cross-encoder: {error}") from error
        if record.host_hash != embeddings_hash(network.host):
            raise LinkIndexError(
                f"{folder} was trained over other embeddings than {record.host} has now; "
                f"{CROSS.remedy}"
            )
        sealed.remember()
        return cls(network, load_tokenizer(record.host), record, graph, about.cards)


class _About(msgspec.Struct):
    record: CrossRecord
    cards: CardOptions


class Cards:
    """The cards of a graph's entities, each made once; what the graph lacks is its identifier."""

    def __init__(self, graph: KnowledgeGraph, options: CardOptions) -> None:
        self._graph, self._options, self._known = graph, options, dict[str, str]()

    def of(self, entities: Sequence[str]) -> list[str]:
        """One card an entity."""
        new = [entity for entity in dict.fromkeys(entities) if entity not in self._known]
        if len(self._known) + len(new) > MOST_REMEMBERED:
            self._known.clear()
            new = list(dict.fromkeys(entities))
        if new:
            ids = self._graph.entities.ids(new)
            self._known.update(zip(new, new, strict=True))
            there = np.flatnonzero(ids >= 0).tolist()
            texts = cards(self._graph, ids[there], self._options)
            self._known.update(zip([new[i] for i in there], texts, strict=True))
        return [self._known[entity] for entity in entities]


def pairs_of(
    texts: Sequence[LinkedText], cards_of: Cards, record: CrossRecord
) -> tuple[list[Pair], list[int]]:
    """The pairs of every link in turn, and where each link's begin and the last one's end."""
    contexts = [each for candidates in contexts_of(texts, record.window) for each in candidates]
    candidate_ids = [
        [candidate.entity for candidate in link.candidates[: record.most]]
        for text in texts
        for link in text.links
    ]
    card_texts = iter(
        cards_of.of([entity for candidates in candidate_ids for entity in candidates])
    )
    pairs = [
        (marked(context), next(card_texts))
        for context, candidates in zip(contexts, candidate_ids, strict=True)
        for _ in candidates
    ]
    return pairs, [0, *np.cumsum([len(candidates) for candidates in candidate_ids]).tolist()]


def marked(context: tuple[str, str]) -> str:
    """The window of a mention with its surface between bars."""
    surface, window = context
    return f"{surface} | {window}"


def tokenized(
    tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Pair], most: int
) -> dict[str, Tensor]:
    """Word pieces of pairs, padded to the longest."""
    batch = tokenizer(
        [context for context, _ in pairs],
        [card for _, card in pairs],
        padding=True,
        truncation=True,
        max_length=most,
        return_tensors="pt",
    )
    return dict(batch)


def _filled(read: NDArray[np.float64], n: int) -> Scores:
    scores: Scores = np.full(n, read.min() - UNREAD if len(read) else 0.0)
    scores[: len(read)] = read
    return scores


def new_network(host: str, n_layers: int) -> CrossNetwork:
    """The untrained network over the first layers of a host."""
    return CrossNetwork(load_host(host), n_layers=n_layers)
