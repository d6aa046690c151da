"""Training of the map of a `MatchingEncoder`: the right card among those that names propose.

    loss = CE(cos(q, c) / t) + CE(cos(w, c) / t) + |W - 1|^2 / width

q is the mention's query (`entity_linking.dense.context`: surface and window), w the window alone,
c the cards of its candidates. Other candidates with the same name are what Wu et al. 2020 (section
4.2) mine as hard negatives; here names give them. W begins as the identity and is drawn to it.

Axis legend: mention, candidate, width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from entity_linking.dense.building import encode_distinct
from entity_linking.dense.cards import CardOptions, cards
from entity_linking.dense.context import TEMPERATURE, contexts_of
from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText
from entity_linking.parts import SentenceEncoder
from entity_linking.randomness import generator
from kept.linking.matching.encoder import MatchingEncoder, MatchingRecord
from kg_loaders import KnowledgeGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingSettings:
    """How a map is trained; `most_candidates` counts the gold one."""

    epochs: int = 8
    seed: int = 0
    window: int = 8
    most_candidates: int = 16
    mentions_per_step: int = 128
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        least = min(self.epochs, self.mentions_per_step, self.window + 1, self.most_candidates - 1)
        if least < 1 or self.learning_rate <= 0:
            raise LinkingError(f"{self} has a count that is too small or a rate not above 0")


@dataclass(frozen=True, slots=True)
class Examples:
    """Vectors of mentions and of their candidates' cards, the gold one first.

    `surfaces` and `windows` `[mention width]`; `cards` `[card width]`; `places` int64
    `[mention candidate]`, rows of `cards`, -1 where there is none.
    """

    surfaces: Tensor
    windows: Tensor
    cards: Tensor
    places: Tensor

    def __len__(self) -> int:
        return len(self.surfaces)

    def logits(self, matrix: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Of the candidates of mentions `[mention candidate]`: by query, and by window alone."""
        surface = normalize(self.surfaces[rows] @ matrix.T, dim=1)
        window = normalize(self.windows[rows] @ matrix.T, dim=1)
        rows_of = self.places[rows]
        near = normalize(self.cards[rows_of.clamp(min=0)] @ matrix.T, dim=2)
        query = normalize(surface + window, dim=1)
        none = rows_of < 0

        def score(vectors: Tensor) -> Tensor:
            cosines = torch.einsum("md,mcd->mc", vectors, near) / TEMPERATURE
            return cosines.masked_fill(none, -torch.inf)

        return score(query), score(window)


def examples_of(
    encoder: SentenceEncoder,
    graph: KnowledgeGraph,
    texts: Sequence[LinkedText],
    settings: MatchingSettings,
    options: CardOptions,
) -> Examples:
    """The mentions of `texts` that have their gold entity and another one among their candidates.

    Links bear candidates and gold (`entity_linking.scorers.reranker.with_gold`).
    """
    mention_texts, candidate_names = [], []
    for text, contexts in zip(texts, contexts_of(texts, settings.window), strict=True):
        for link, context in zip(text.links, contexts, strict=True):
            names = [c.entity for c in link.candidates]
            if link.entity in names and len(names) > 1:
                others = [name for name in names if name != link.entity]
                mention_texts.append(context)
                candidate_names.append([str(link.entity), *others[: settings.most_candidates - 1]])
    if not candidate_names:
        raise LinkingError(
            "no mention has its entity and another one among its candidates, so there is "
            "nothing to learn; give texts with ambiguous names"
        )
    distinct = {
        name: i
        for i, name in enumerate(
            dict.fromkeys(n for row_names in candidate_names for n in row_names)
        )
    }
    ids = graph.entities.ids(list(distinct))
    rows_of = np.full((len(candidate_names), settings.most_candidates), -1, np.int64)
    for row, row_names in zip(rows_of, candidate_names, strict=True):
        row[: len(row_names)] = [distinct[name] for name in row_names]

    def read(lines: list[str]) -> Tensor:
        return torch.from_numpy(encode_distinct(encoder, lines))

    return Examples(
        read([surface for surface, _ in mention_texts]),
        read([window for _, window in mention_texts]),
        read(cards(graph, ids, options)),
        torch.from_numpy(rows_of),
    )


def train_matching(
    encoder: SentenceEncoder,
    host: str,
    graph: KnowledgeGraph,
    train: Sequence[LinkedText],
    held_out: Sequence[LinkedText],
    settings: MatchingSettings = MatchingSettings(),
    *,
    cards: CardOptions = CardOptions(),  # noqa: B008 - frozen
    trained_on: str = "",
    announce: Callable[[str], None] = lambda _: None,
) -> MatchingEncoder:
    """The map of the epoch with the best accuracy on `held_out`, or none (W = 1) if none is better.

    `encoder` reads texts by the host called `host`. The same texts and settings give the same map
    on the same machine. Raises `LinkingError` where no mention is ambiguous.
    """
    teaches, tests = (
        examples_of(encoder, graph, texts, settings, cards) for texts in (train, held_out)
    )
    same = torch.eye(encoder.width)
    best, best_epoch, before = same, 0, accuracy(tests, same)
    most = before
    for epoch, (matrix, loss) in enumerate(_epochs(teaches, settings, encoder.width), 1):
        score = accuracy(tests, matrix)
        announce(f"epoch {epoch}: loss {loss:.4f}, held-out accuracy {score:.4f} ({before:.4f})")
        if score > most:
            best, best_epoch, most = matrix, epoch, score
    record = MatchingRecord(
        host=host,
        encoder=encoder.name,
        trained_on=trained_on,
        n_mentions=len(teaches),
        n_epochs=best_epoch,
        seed=settings.seed,
        before=before,
        after=most,
    )
    array: NDArray[np.float32] = best.numpy()
    return MatchingEncoder(encoder, array, record)


@torch.no_grad()
def accuracy(examples: Examples, matrix: Tensor) -> float:
    """How often the gold card is nearest to the query."""
    by_query, _ = examples.logits(matrix, torch.arange(len(examples)))
    return float((by_query.argmax(dim=1) == 0).float().mean())


def _epochs(
    examples: Examples, settings: MatchingSettings, width: int
) -> list[tuple[Tensor, float]]:
    """The map after each epoch `[width width]`, and the mean loss on the way."""
    matrix = torch.nn.Parameter(torch.eye(width))
    optimiser = torch.optim.Adam([matrix], lr=settings.learning_rate)
    draws = generator(settings.seed, "matching encoder")
    losses = []
    for _ in range(settings.epochs):
        total = 0.0
        order = torch.from_numpy(draws.permutation(len(examples)))
        for rows in torch.split(order, settings.mentions_per_step):
            gold = torch.zeros(len(rows), dtype=torch.long)
            by_query, by_window = examples.logits(matrix, rows)
            loss = cross_entropy(by_query, gold) + cross_entropy(by_window, gold)
            pull = (matrix - torch.eye(width)).pow(2).sum() / width
            optimiser.zero_grad()
            torch.autograd.backward(loss + pull)
            optimiser.step()
            total += float(loss.detach()) * len(rows)
        losses.append((matrix.detach().clone(), total / len(examples)))
    return losses
