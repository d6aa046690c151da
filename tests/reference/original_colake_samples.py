"""CoLAKE's ready-made fine-tuning inputs: words and entity nodes, no relation nodes.

Axis legend: batch, node, class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from kept.batches import N_SPECIAL_ROWS, PAD_ROW, UNKNOWN_ROW, KnowledgeBatch, Visibility
from kept.errors import BatchError
from kept.graphs.graph import NodeKind

SPECIAL_ENTITIES = ("<unk>", "<pad>", "<mask>")


@dataclass(frozen=True)
class GraphSample:
    """One text with its entities: word-piece ids, entity identifiers, soft positions of both.

    Everything sees everything. An entity outside the vocabulary becomes the unknown row.
    """

    words: tuple[int, ...]
    entities: tuple[str, ...]
    positions: tuple[int, ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        n_nodes = len(self.words) + len(self.entities)
        if len(self.positions) != n_nodes:
            raise BatchError(f"{len(self.positions)} positions for {n_nodes} nodes")


def entity_vocabulary(*sets: Iterable[GraphSample]) -> dict[str, int]:
    """Special entities, then those of `sets` (train, dev, test) in order of appearance."""
    names = (name for samples in sets for sample in samples for name in sample.entities)
    return {name: i for i, name in enumerate(dict.fromkeys((*SPECIAL_ENTITIES, *names)))}


def label_vocabulary(train: Iterable[GraphSample]) -> dict[str, int]:
    """Labels in order of first appearance."""
    names = dict.fromkeys(label for sample in train for label in sample.labels)
    return {name: i for i, name in enumerate(names)}


def entity_rows(vocabulary: Mapping[str, int], table: Mapping[str, int]) -> list[int]:
    """Row of the full table for each entity of a vocabulary; `table` maps names to graph ids."""
    special = {name: row for row, name in enumerate(SPECIAL_ENTITIES)}
    unknown = [name for name in vocabulary if name not in special and name not in table]
    if unknown:
        raise BatchError(f"{len(unknown)} entities are not in the graph, the first: {unknown[0]!r}")
    return [
        special[name] if name in special else table[name] + N_SPECIAL_ROWS for name in vocabulary
    ]


def collate(
    samples: Sequence[GraphSample],
    *,
    entities: Mapping[str, int],
    labels: Mapping[str, int],
    multi_label: bool,
) -> KnowledgeBatch:
    """One batch: words padded to the longest, then entities padded to the most.

    Labels are `[batch]` class numbers, or with `multi_label` a 0/1 matrix `[batch class]`; raises
    `BatchError` for a label outside `labels`, or not exactly one where one is wanted.
    """
    n_words = max(len(sample.words) for sample in samples)
    n_nodes = n_words + max(len(sample.entities) for sample in samples)
    ids = torch.full((len(samples), n_nodes), PAD_ROW)
    mask = torch.zeros((len(samples), n_nodes), dtype=torch.bool)
    positions = torch.zeros_like(ids)
    for row, sample in enumerate(samples):
        n, m = len(sample.words), len(sample.entities)
        for start, stop in ((0, n), (n_words, n_words + m)):
            mask[row, start:stop] = True
        rows = [entities.get(name, UNKNOWN_ROW) for name in sample.entities]
        ids[row, mask[row]] = torch.tensor([*sample.words, *rows])
        positions[row, mask[row]] = torch.tensor(sample.positions)
    kinds = torch.full_like(ids, int(NodeKind.WORD))
    kinds[:, n_words:] = int(NodeKind.ENTITY)
    visible = mask[:, :, None] & mask[:, None, :]
    return KnowledgeBatch(
        node_ids=ids,
        node_kinds=kinds,
        node_mask=mask,
        positions=positions,
        segment_ids=torch.zeros_like(ids),
        visibility=Visibility(visible | torch.eye(n_nodes, dtype=torch.bool)),
        labels=_targets(samples, labels, multi_label),
    )


def _targets(
    samples: Sequence[GraphSample], labels: Mapping[str, int], multi_label: bool
) -> torch.Tensor:
    unknown = [name for sample in samples for name in sample.labels if name not in labels]
    if unknown:
        raise BatchError(f"label {unknown[0]!r} is not among the {len(labels)} known labels")
    if multi_label:
        targets = torch.zeros(len(samples), len(labels))
        for row, sample in enumerate(samples):
            targets[row, [labels[name] for name in sample.labels]] = 1
        return targets
    for sample in samples:
        if len(sample.labels) != 1:
            raise BatchError(f"expected one label, got {list(sample.labels)}")
    return torch.tensor([labels[sample.labels[0]] for sample in samples])
