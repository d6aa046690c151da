"""Sixty entities in four groups: relation r joins a group to the next ones."""

from __future__ import annotations

import numpy as np

from kept.kge.inductive import InductiveSplit, split_unseen
from kept.kge.splits import Splits
from kg_loaders import Text, TextKind, Triple, graph_from_records

N, N_GROUPS = 60, 4


def toy_split() -> InductiveSplit:
    """Two in ten entities held out; an entity's label is its name, whose number tells its group."""
    draws = np.random.default_rng(5)
    names = [f"e{i:02d}" for i in range(N)]
    rows = set()
    for head in range(N):
        for relation in range(3):
            group = (head + relation + 1) % N_GROUPS
            for tail in draws.choice(np.arange(group, N, N_GROUPS), 3, replace=False).tolist():
                rows.add((names[head], f"r{relation}", names[tail]))
    texts = [Text(name, TextKind.LABEL, name, "en") for name in names]
    graph = graph_from_records([*(Triple(*row) for row in sorted(rows)), *texts])
    triples = np.array(graph.triples)[draws.permutation(graph.n_triples)]
    train, valid, test = np.split(triples, [len(triples) * 8 // 10, len(triples) * 9 // 10])
    return split_unseen(
        Splits(graph, train, valid, test), valid_share=0.1, test_share=0.2, context_share=0.4,
        seed=0,
    )  # fmt: skip
