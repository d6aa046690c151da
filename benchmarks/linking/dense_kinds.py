"""Kinds of vector index beside exact search: recall, size, milliseconds a query, growth.

    python benchmarks/linking/dense_kinds.py [--entities 10000,20000,40000] [--width 128]
        [--kinds ivf,pq]

Clustered unit vectors (seeded), one a made entity; queries lie between two of them
(`DenseIndex.report`). "pq" keeps a byte for eight numbers and compares what it fetches by the
vectors. Inverted lists ("ivf", "pq") are made of eight times as many: they are for a million and
more, and below 65,000 all vectors train their lists, whose cost then grows as n to the power 1.5.
JSON lines; at the end the exponents.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import growth, write_line
from entity_linking.dense.folder import Kind
from entity_linking.dense.index import DenseIndex
from kg_loaders import Text, TextKind, graph_from_records

N_CLUSTERS, N_QUERIES, SPREAD = 400, 200, 0.6
N_NOISES = 50_021
"""A prime, so that no two of the first 20 million texts have the same centre and noise."""
TIMES_LARGER = {"ivf": 8, "pq": 8}


class Clustered:
    """A vector for each text: one of `N_CLUSTERS` centres and noise, by the number in the text."""

    name = "clustered"

    def __init__(self, width: int) -> None:
        self.width = width
        draws = np.random.default_rng(0)
        self._centres = draws.standard_normal((N_CLUSTERS, width), np.float32)
        self._noises = SPREAD * draws.standard_normal((N_NOISES, width), np.float32)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        numbers = np.array([int(text.split()[1]) for text in texts])
        vectors = self._centres[numbers % N_CLUSTERS] + self._noises[numbers % N_NOISES]
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / lengths, np.float32)


def measure(n: int, kind: Any, encoder: Clustered) -> dict[str, Any]:
    names = (Text(f"Q{i}", TextKind.LABEL, f"name {i}") for i in range(n))
    graph = graph_from_records(names)
    start = time.process_time()
    index = DenseIndex.build(graph, encoder, kind="flat")
    embedded = time.process_time() - start
    start = time.process_time()
    index = DenseIndex.build(graph, encoder, kind=kind)
    built = time.process_time() - start - embedded
    report = index.report(n_queries=N_QUERIES)
    queries = encoder.encode([f"query {n + i}" for i in range(N_QUERIES)])
    start = time.process_time()
    index.search(queries, 30)
    query_seconds = time.process_time() - start
    return {
        "kind": kind, "entities": n, "build_cpu_s": round(max(built, 0.01), 2),
        "ms_a_query": round(1e3 * query_seconds / N_QUERIES, 2),
        "index_mb": round(report.index_bytes / 1e6, 1),
        "recall": {f"@{k}": round(share, 3) for k, share in report.recall},
    }  # fmt: skip


def main() -> None:
    """Print a JSON line per kind and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", default="10000,20000,40000")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--kinds", default=",".join(get_args(Kind)))
    options = parser.parse_args()
    encoder = Clustered(options.width)
    for kind in options.kinds.split(","):
        sizes = [int(n) * TIMES_LARGER.get(kind, 1) for n in options.entities.split(",")]
        rows = [measure(n, kind, encoder) for n in sizes]
        for row in rows:
            write_line(row="vector index", **row)
        for part in ("build_cpu_s", "ms_a_query"):
            if kind != "flat" or part == "ms_a_query":
                growth(f"vector index, {part}", "entities", sizes, [row[part] for row in rows],
                       kind=kind)  # fmt: skip


if __name__ == "__main__":
    main()
