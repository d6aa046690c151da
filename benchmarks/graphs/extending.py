"""How near the start of a new entity's row comes to the row that training would have given it.

A fifth of CoDEx-S's entities are guessed as if they were new, from their neighbours, names or
descriptions, in tables of several methods; printed is the mean cosine of guess and row, both less
the mean row, over seeds of the table. 0 is what the mean row scores. An upper bound: the rows that
an old entity is guessed from have learned from it, those of a new one's neighbours have not. At the
end the exponent of guessing, over a quarter, half and all of the triples.

    KEPT_DATA=... python benchmarks/graphs/extending.py [--seeds 3]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import growth, in_turn, three_sizes, write_line
from kept import hosts
from kept.batches import N_SPECIAL_ROWS
from kept.kge.vectors import entity_vectors
from kept.training.extending.starts import STARTS, StartContext, scores
from kept.vectors import FactVectors
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.records import Record

CODEX = Path(os.environ.get("KEPT_DATA", "data")) / "codex/codex-s"


def records() -> Iterator[Record]:
    """Triples of the training split, labels and descriptions."""
    with gzip.open(CODEX / "train.txt.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield Triple(*line.rstrip("\n").split("\t"))
    with gzip.open(CODEX / "entity_text.tsv.gz", "rt", encoding="utf-8") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            yield Text(row["qid"], TextKind.LABEL, row["name"], "en")
            if row["description"]:
                yield Text(row["qid"], TextKind.DESCRIPTION, row["description"], "en")


def tables(
    graph: KnowledgeGraph, world: StartContext, seed: int
) -> Iterator[tuple[str, torch.Tensor]]:
    """Rows by the name of what learned them."""
    yield "TransE (ERNIE, KnowBERT, KT-NET)", entity_vectors(graph, width=100, seed=seed)
    facts = FactVectors(world.words, world.tokenizer)(graph).vectors
    yield "names and facts in words (E-BERT)", torch.cat([facts[:N_SPECIAL_ROWS] * 0, facts])


def main() -> None:
    """Print a JSON line per table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    graph = graph_from_records(records())
    host, tokenizer = hosts.load_host("minilm"), hosts.load_tokenizer("minilm")
    words = hosts.word_table(host).weight.detach()
    world = StartContext(graph, torch.ones(graph.n_entities, dtype=torch.bool), words, tokenizer)
    results: dict[str, list[dict[str, float | None]]] = {}
    start = time.process_time()
    for seed in range(options.seeds):
        for name, table in tables(graph, world, seed):
            in_words = table.shape[1] == words.shape[1]
            rows = table[N_SPECIAL_ROWS:]
            results.setdefault(name, []).append(scores(rows, world, in_words=in_words))
    for name, each in results.items():
        means = {s: round(float(np.mean([one[s] or 0.0 for one in each])), 3) for s in STARTS}
        spread = {s: round(float(np.ptp([one[s] or 0.0 for one in each])), 3) for s in STARTS}
        n_guessed, seconds = len(world.guessed), round(time.process_time() - start, 1)
        write_line(row="starts of rows", table=name, cosine=means, range_over_seeds=spread,
             seeds=options.seeds, guessed=n_guessed, cpu_s=seconds)  # fmt: skip
    grow(graph, words, tokenizer)


def grow(graph: KnowledgeGraph, words: torch.Tensor, tokenizer: Any) -> None:
    """The seconds of guessing in graphs with fewer triples."""
    every, sizes, spent = list(records()), three_sizes(graph.n_triples), []
    texts = [record for record in every if not isinstance(record, Triple)]
    triples = [record for record in every if isinstance(record, Triple)]
    draws = torch.Generator().manual_seed(0)
    for n in sizes:
        part = graph_from_records([*triples[:n], *texts])
        world = StartContext(part, torch.ones(part.n_entities, dtype=torch.bool), words, tokenizer)
        rows = torch.randn(part.n_entities, 100, generator=draws)
        (best,) = in_turn([lambda w=world, r=rows: scores(r, w, in_words=False)], 2)
        spent.append(best.processor)
    growth("starts of rows", "triples", sizes, spent)


if __name__ == "__main__":
    main()
