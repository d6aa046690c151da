"""The best answers to a question for one slot of a triple, and what must not be among them.

Axis legend: candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from kept.errors import ConfigError
from kept.evaluation.ranking import SLOTS, Direction, Filter, HasScores
from kept.kge.splits import Seen, Splits

UNKNOWN = "?"


@dataclass(frozen=True)
class Answer:
    """One answer. `known`: the triple stands in a split. `trained`: training saw the answer and
    everything that was asked with; else the score is made of vectors that nothing has moved."""

    id: str
    label: str
    score: float
    known: bool
    trained: bool


@dataclass(frozen=True)
class Answers:
    """Best first. `n_untrained`: candidates left out as training never saw them. `left_out`: the
    entity that was asked about, where it was left out of its own answers."""

    best: tuple[Answer, ...]
    n_untrained: int
    left_out: str | None


def best_answers(
    scorer: HasScores,
    splits: Splits,
    seen: Seen,
    asked: tuple[str, str, str],
    *,
    n: int,
    untrained: bool = False,
) -> Answers:
    """Return the `n` best answers for the slot of `asked` that is "?".

    An entity is left out of its own answers unless a triple of the relation that is known joins an
    entity with itself: with a relation that does not, translations and products put it first for
    its likeness with itself, whatever the fact. An entity or relation that training never saw is
    refused, and none is an answer, unless `untrained`. Raises `ConfigError`, and `UnknownNodeError`
    for a name that the graph does not have.
    """
    if asked.count(UNKNOWN) != 1:
        raise ConfigError(f'exactly one of head, relation and tail must be "?", not {asked}')
    graph = splits.graph
    direction = next(name for name, slot in SLOTS.items() if asked[slot] == UNKNOWN)
    vocabularies = (graph.entities, graph.relations, graph.entities)
    pairs = zip(asked, vocabularies, strict=True)
    ids = [0 if name == UNKNOWN else names.id(name) for name, names in pairs]
    trained = (seen.entities, seen.relations, seen.entities)
    never = [
        name
        for name, id, has in zip(asked, ids, trained, strict=True)
        if name != UNKNOWN and not has[id]
    ]
    if never and not untrained:
        raise ConfigError(
            f"{' and '.join(map(repr, never))}: in no training triple, so the scorer knows nothing "
            "of it; train on a graph that has it in a triple, or ask with --untrained for scores "
            "of vectors that nothing has moved"
        )
    query = np.array([ids], np.int64)
    with torch.no_grad():
        scores = scorer.scores(direction, torch.from_numpy(query))[0].double().cpu().numpy()
    slot = SLOTS[direction]
    competes = trained[slot].copy() if not untrained else np.ones(len(scores), np.bool_)
    own = _own(splits, direction, ids)
    if own is not None:
        competes[own] = False
    order = np.flatnonzero(competes)
    order = order[np.argsort(-scores[order], kind="stable")][:n]
    known = _known(splits, direction, query)
    label = graph.relation_label if direction == "relation" else graph.label
    return Answers(
        best=tuple(
            Answer(
                vocabularies[slot].name(i), label(i), float(scores[i]), i in known,
                trained=not never and bool(trained[slot][i]),
            )
            for i in order.tolist()
        ),
        n_untrained=0 if untrained else int((~trained[slot]).sum()),
        left_out=None if own is None else vocabularies[slot].name(own),
    )  # fmt: skip


def _own(splits: Splits, direction: Direction, ids: Sequence[int]) -> int | None:
    """The entity that is asked about, where the relation joins none with itself."""
    if direction == "relation":
        return None
    rows = np.concatenate(list(splits.as_mapping().values()))
    of_relation = rows[rows[:, 1] == ids[1]]
    if (of_relation[:, 0] == of_relation[:, 2]).any():
        return None
    return ids[2] if direction == "head" else ids[0]


def _known(splits: Splits, direction: Direction, query: NDArray[np.int64]) -> frozenset[int]:
    graph = splits.graph
    found = Filter(
        splits.as_mapping(), n_entities=graph.n_entities, n_relations=graph.n_relations
    )  # fmt: skip
    return frozenset(found.known(direction, query)[1].tolist())
