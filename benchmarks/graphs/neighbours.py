"""15 random outgoing triples of each of 20,000 entities: kept beside a dict of lists and dgl.

    python benchmarks/graphs/neighbours.py [--graph DIR] [--repeat 7]

Without a graph: skewed synthetic triples of CoDEx-M's size. Entities are drawn by degree, as text
mentions them. Every row runs ours and the peer in turn; the best of `--repeat` counts, in processor
seconds. dgl draws each entity of a batch once, so repeats are taken out for both. The last rows ask
a hub of growing degree, with the fitted exponents: time grows as the degree to that power.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import compared, growth, in_turn, write_line
from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from kg_loaders.neighbours import neighbours
from kg_loaders.reading.blocks import TripleBlock
from kg_loaders.vocabulary import strings

N_BEST, N_ASKED = 15, 20_000
SIZES = (5_000, 10_000, 20_000)
DEGREES = (10_000, 100_000, 1_000_000)
Queries = Any
"""Entity ids, int32 `[entity]`."""


def synthetic() -> KnowledgeGraph:
    generator = np.random.default_rng(0)
    weights = generator.lognormal(size=17_000)
    heads = generator.choice(17_000, 186_000, p=weights / weights.sum())
    relations = generator.zipf(1.5, 186_000) % 51
    tails = generator.integers(0, 17_000, 186_000)
    rows = np.stack([heads, relations, tails], axis=1).tolist()
    return graph_from_records(Triple(f"Q{h}", f"P{r}", f"Q{t}") for h, r, t in rows)


def hub_graph(degree: int) -> KnowledgeGraph:
    """An entity with so many triples."""
    ends = np.zeros((degree, 2), np.int32)
    ends[:, 1] = np.arange(1, degree + 1)
    block = TripleBlock(ends, np.zeros(degree, np.int32), "Q", strings(["P1"]))
    return graph_from_records([block])


def kept(graph: KnowledgeGraph, queries: Queries, size: int) -> Callable[[], int]:
    def run() -> int:
        draws = np.random.default_rng(0)
        return sum(
            len(
                neighbours(graph, queries[i : i + size], N_BEST, policy="random", generator=draws)[
                    0
                ]
            )
            for i in range(0, len(queries), size)
        )

    return run


def dictionary(graph: KnowledgeGraph, queries: Queries) -> Callable[[], int]:
    facts: dict[int, list[tuple[int, int]]] = {}
    for head, relation, tail in graph.triples.tolist():
        facts.setdefault(head, []).append((relation, tail))
    entities = queries.tolist()

    def run() -> int:
        sample = random.sample
        lists = [
            every if len(every) <= N_BEST else sample(every, N_BEST)
            for every in (facts.get(entity, []) for entity in entities)
        ]
        return sum(map(len, lists))

    return run


def by_dgl(graph: KnowledgeGraph, queries: Queries, size: int) -> Callable[[], int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import dgl
        import torch
    ends = (torch.from_numpy(np.array(graph.triples[:, c])).long() for c in (0, 2))
    other = dgl.graph(tuple(ends), num_nodes=graph.n_entities)
    batches = [torch.from_numpy(queries[i : i + size]).long() for i in range(0, len(queries), size)]

    def run() -> int:
        return sum(
            len(dgl.sampling.sample_neighbors(other, batch, N_BEST, edge_dir="out").edata[dgl.EID])
            for batch in batches
        )

    return run


def report(row: str, n: int, runs: list[Callable[[], int]], repeat: int) -> tuple[float, float]:
    ours, peer = in_turn(runs, repeat)
    compared(row, ours, peer, equal=ours.result == peer.result, entities=n)
    return ours.processor, peer.processor


def unrepeated(queries: Queries, size: int) -> Queries:
    """The batches without an entity that stood in its batch before."""
    return np.concatenate([np.unique(queries[i : i + size]) for i in range(0, len(queries), size)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--graph")
    parser.add_argument("--repeat", type=int, default=7)
    arguments = parser.parse_args()
    graph = KnowledgeGraph.open(arguments.graph) if arguments.graph else synthetic()
    degrees = np.diff(graph.out_offsets)
    chance = (degrees + 0.5) / (degrees + 0.5).sum()
    every = np.random.default_rng(0).choice(graph.n_entities, N_ASKED, p=chance).astype(np.int32)
    print(
        f"{graph}, greatest out-degree {degrees.max()}, of those asked {degrees[every].mean():.0f}"
    )
    for batch in (1024, N_ASKED):
        seconds = []
        for n in SIZES:
            queries = every[:n]
            runs = [kept(graph, queries, batch), dictionary(graph, queries)]
            seconds.append(report(f"dict, batch {batch}", n, runs, arguments.repeat))
        growth(f"dict, batch {batch}", "entities", SIZES, *zip(*seconds, strict=True))
    try:
        for batch in (1024, N_ASKED):
            queries = np.unique(every) if batch == N_ASKED else every[:1024]
            queries = unrepeated(queries, batch)
            runs = [kept(graph, queries, batch), by_dgl(graph, queries, batch)]
            report(f"dgl, batch {batch}", len(queries), runs, arguments.repeat)
    except ImportError as error:
        write_line(row="dgl", skipped=str(error))
    seconds = []
    for degree in DEGREES:
        graph = hub_graph(degree)
        queries = np.full(100, graph.entities.id("Q0"), np.int32)
        runs = [kept(graph, queries, 1), dictionary(graph, queries)]
        seconds.append(report(f"hub of degree {degree}, one at a time", 100, runs, 3))
    growth("hub", "degree", DEGREES, *zip(*seconds, strict=True))


if __name__ == "__main__":
    main()
