"""The best answers to a query for one slot of a triple.

Axis legend: candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kept.errors import ConfigError
from kept.evaluation.ranking import SLOTS, Direction, Filter, HasScores
from kept.kge.calibration import Calibration
from kept.kge.splits import Seen, Splits
from kept.results import Result
from kg_loaders import KnowledgeGraph
from kg_loaders.entity import relation_named

UNKNOWN = "?"
Question = tuple[str, str, str]
"""Head, relation and tail by name, one of them `UNKNOWN`."""


@dataclass(frozen=True)
class Answer:
    """One answer. `known`: the triple stands in a split. `trained`: the answer and the query's ids
    occur in training; else the score is of untrained vectors. `confidence`: the chance of being
    the missing answer, given that one is missing; None for known ones, and if not calibrated."""

    id: str
    label: str
    score: float
    known: bool
    trained: bool
    confidence: float | None = None


@dataclass(frozen=True)
class Answers:
    """Best first. `n_untrained`: candidates left out as unseen in training. `left_out`: the query's
    own entity, where it was left out of the answers."""

    best: tuple[Answer, ...]
    n_untrained: int
    left_out: str | None

    def __str__(self) -> str:
        return "\n".join(f"{each.score:8.3f}  {each.label}" for each in self.best)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, a row per answer, best first."""
        return Result(rows=[asdict(each) for each in self.best]).to_pandas()


def by_identifiers(
    graph: KnowledgeGraph, question: Question, *, allow_new: bool = False
) -> Question:
    """Return the question with labels replaced by identifiers.

    With `allow_new` one name may be of an entity that the graph does not have yet. Raises
    `UnknownNodeError`, and `AmbiguousNameError` for a label that several have.
    """
    head, relation, tail = question

    def entity(name: str) -> str:
        if name == UNKNOWN or (allow_new and name not in graph):
            return name
        return graph[name].id

    named = relation if relation == UNKNOWN else relation_named(graph, relation)
    return entity(head), named, entity(tail)


def best_answers(
    scorer: HasScores,
    splits: Splits,
    seen_ids: Seen,
    question: tuple[str, str, str],
    *,
    n: int,
    untrained: bool = False,
    calibration: Calibration | None = None,
) -> Answers:
    """Return the `n` best answers for the slot of `question` that is "?".

    The query's own entity is left out of its answers unless a known triple of the relation joins an
    entity with itself: otherwise translations and products rank it first, since it is most similar
    to itself. Entities and relations unseen in training are refused, and are not answers, unless
    `untrained`. Raises `ConfigError`, and `UnknownNodeError` for a name that the graph does not
    have.
    """
    if question.count(UNKNOWN) != 1:
        raise ConfigError(f'exactly one of head, relation and tail must be "?", not {question}')
    graph = splits.graph
    direction = next(name for name, slot in SLOTS.items() if question[slot] == UNKNOWN)
    vocabularies = (graph.entities, graph.relations, graph.entities)
    pairs = zip(question, vocabularies, strict=True)
    ids = [0 if name == UNKNOWN else names.id(name) for name, names in pairs]
    trained = (seen_ids.entities, seen_ids.relations, seen_ids.entities)
    never = [
        name
        for name, id, has in zip(question, ids, trained, strict=True)
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
    in_graph = _query_entity(splits, direction, ids)
    if in_graph is not None:
        competes[in_graph] = False
    order = np.flatnonzero(competes)
    order = order[np.argsort(-scores[order], kind="stable")][:n]
    known_answers = _known_answers(splits, direction, query)
    label = graph.relation_label if direction == "relation" else graph.label
    sure = None
    if calibration is not None and direction != "relation":
        is_new = competes.copy()
        is_new[[*known_answers]] = False
        sure = calibration.confidences(scores, is_new) if is_new.any() else None
    return Answers(
        best=tuple(
            Answer(
                vocabularies[slot].name(i),
                label(i),
                float(scores[i]),
                i in known_answers,
                trained=not never and bool(trained[slot][i]),
                confidence=None if sure is None or i in known_answers else float(sure[i]),
            )
            for i in order.tolist()
        ),
        n_untrained=0 if untrained else int((~trained[slot]).sum()),
        left_out=None if in_graph is None else vocabularies[slot].name(in_graph),
    )


def _query_entity(splits: Splits, direction: Direction, ids: Sequence[int]) -> int | None:
    """Return the query's entity, where the relation joins none with itself."""
    if direction == "relation":
        return None
    rows = np.concatenate(list(splits.as_mapping().values()))
    of_relation = rows[rows[:, 1] == ids[1]]
    if (of_relation[:, 0] == of_relation[:, 2]).any():
        return None
    return ids[2] if direction == "head" else ids[0]


def _known_answers(
    splits: Splits, direction: Direction, query: NDArray[np.int64]
) -> frozenset[int]:
    graph = splits.graph
    known_answers = Filter(
        splits.as_mapping(), n_entities=graph.n_entities, n_relations=graph.n_relations
    )
    return frozenset(known_answers.known(direction, query)[1].tolist())
