"""Up to 15 random outgoing triples of each of 20,000 entities, in batches: kept, dgl, networkx.

    python benchmarks/neighbours.py [--graph DIR]

Without a graph: skewed synthetic triples of CoDEx-M's size. Entities are drawn by degree, as text
mentions them. dgl draws each entity of a batch once, so repeats are taken out for it.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections.abc import Callable

import numpy as np

from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from kg_loaders.neighbours import neighbours

N_BEST, N_ASKED = 15, 20_000


def synthetic() -> KnowledgeGraph:
    generator = np.random.default_rng(0)
    weights = generator.lognormal(size=17_000)
    heads = generator.choice(17_000, 186_000, p=weights / weights.sum())
    relations = generator.zipf(1.5, 186_000) % 51
    tails = generator.integers(0, 17_000, 186_000)
    rows = np.stack([heads, relations, tails], axis=1).tolist()
    return graph_from_records(Triple(f"Q{h}", f"P{r}", f"Q{t}") for h, r, t in rows)


def report(name: str, n_asked: int, run: Callable[[], object]) -> None:
    run()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    rate = n_asked / sorted(times)[1]
    print(f"{name:46}{rate:12.0f} entities/s  (slowest/fastest {max(times) / min(times):.2f})")


def kept_rows(graph: KnowledgeGraph, asked: np.ndarray) -> None:
    generator = np.random.default_rng(0)
    for policy in ("random", "degree", "file"):
        for size in (1, 1024):
            part = asked[: 1000 if size == 1 else None]
            batches = [part[i : i + size] for i in range(0, len(part), size)]

            def run(batches: list[np.ndarray] = batches, policy: str = policy) -> None:
                for batch in batches:
                    neighbours(graph, batch, N_BEST, policy=policy, generator=generator)

            report(f"kept {policy}, batch {size}", len(part), run)


def dgl_rows(graph: KnowledgeGraph, asked: np.ndarray) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import dgl
            import torch
    except ImportError as error:
        print(f"dgl: skipped, {error}")
        return
    ends = (torch.from_numpy(np.array(graph.triples[:, c])).long() for c in (0, 2))
    other = dgl.graph(tuple(ends), num_nodes=graph.n_entities)
    for size in (1, 1024):
        part = asked[: 1000 if size == 1 else None]
        batches = [torch.from_numpy(np.unique(part[i : i + size])).long()
                   for i in range(0, len(part), size)]  # fmt: skip
        n_asked = sum(map(len, batches))
        report(
            f"dgl {dgl.__version__} sample_neighbors, batch {size}",
            n_asked,
            lambda batches=batches: [
                dgl.sampling.sample_neighbors(other, batch, N_BEST, edge_dir="out").edata[dgl.EID]
                for batch in batches
            ],
        )


def networkx_rows(graph: KnowledgeGraph, asked: np.ndarray) -> None:
    import networkx as nx

    other = nx.MultiDiGraph()
    other.add_edges_from((h, t, r) for h, r, t in graph.triples.tolist())
    part = asked[:2000].tolist()

    def run() -> None:
        for entity in part:
            found = list(other.out_edges(entity, keys=True))
            if len(found) > N_BEST:
                random.sample(found, N_BEST)

    report("networkx out_edges and random.sample", len(part), run)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--graph")
    arguments = parser.parse_args()
    graph = KnowledgeGraph.open(arguments.graph) if arguments.graph else synthetic()
    degrees = np.diff(graph.out_offsets)
    chance = (degrees + 0.5) / (degrees + 0.5).sum()
    generator = np.random.default_rng(0)
    asked = generator.choice(graph.n_entities, N_ASKED, p=chance).astype(np.int32)
    print(
        f"{graph}, greatest out-degree {degrees.max()}, of those asked {degrees[asked].mean():.0f}"
    )
    kept_rows(graph, asked)
    dgl_rows(graph, asked)
    networkx_rows(graph, asked)


if __name__ == "__main__":
    main()
