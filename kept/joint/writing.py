"""A trained joint space as files: vectors in Wikipedia2Vec's text format, and a TransE.

Axis legend: word, entity (of the vocabulary), relation, width.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kept.joint.corpus import Corpus
from kept.kge.scorers import make_scorer
from kept.kge.trained import save_scorer
from kept.vectors import ENTITY_PREFIX
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.writing import write_lines


def write_vectors(
    path: Path, corpus: Corpus, graph: KnowledgeGraph, vectors: Tensor, *, force: bool
) -> int:
    """Write `vectors [item width]`, words and entities by their identifiers; returns the rows.

    `kept.vectors.Wikipedia2VecFile` reads it. Numbers are written so that they come back as they
    were. Two entities whose identifiers differ in blanks and underscores alone would share a key:
    the first has it.
    """
    keys = [*corpus.words]
    keys += [_key(graph.entities.name(int(entity))) for entity in corpus.entities]

    def lines() -> Iterator[bytes]:
        yield f"{len(keys)} {vectors.shape[1]}\n".encode()
        for key, row in zip(keys, vectors.numpy(), strict=True):
            yield f"{key} {' '.join(map(str, row.tolist()))}\n".encode()

    write_lines(path, lines(), force=force)
    return len(keys)


def write_translations(
    folder: Path,
    graph: KnowledgeGraph,
    entities: Tensor,
    relations: Tensor,
    training: dict[str, Any],
) -> None:
    """Write entity and relation vectors as a TransE that `kept kgc eval` and `predict` take.

    Its score is minus the distance of h + r and t: their order is that of the squared distance.
    """
    scorer = make_scorer(
        "transe",
        n_entities=len(entities),
        n_relations=len(relations),
        width=entities.shape[1],
        generator=torch.Generator(),
    )
    with torch.no_grad():
        scorer.entities.copy_(entities)
        scorer.relations.copy_(relations)
    save_scorer(folder, scorer, graph, training, force=True)


def _key(name: str) -> str:
    return ENTITY_PREFIX + name.replace(" ", "_")
