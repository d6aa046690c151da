"""What a tagger of names is worth in a first run of `kept link`: F1 of spans and of links.

    python -m experiments.ready_weights.names runs/ready/names

The graph is the part of CoDEx-M whose entities have labels. Nothing is fitted.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from kept.linking.linkers import LinkerSettings, open_linker
from kept.tasks.datasets.public_files import codex_triples, lines, table
from kg_loaders import KnowledgeGraph

SETS = ("oke-2016-train", "kore50", "wiki-fair-v2")
Marked = tuple[str, set[tuple[int, int, str]]]


def labelled_graph(data: Path) -> KnowledgeGraph:
    """The triples of CoDEx-M between two labelled entities."""
    rows = table(data / "codex/codex-m/entity_labels.tsv", is_quoted=True)
    labels = {row["qid"]: row["label"] for row in rows}
    named = [t for t in codex_triples(data, ("m",)) if t.head in labels and t.tail in labels]
    entities = {end for fact in named for end in (fact.head, fact.tail)}
    return KnowledgeGraph.from_triples(named, {name: labels[name] for name in entities})


def marked_texts(data: Path, name: str) -> Iterator[Marked]:
    """The texts of a benchmark of ELEVANT's with their marked spans and entities."""
    for line in lines(data / f"el/{name}.benchmark.jsonl"):
        row = json.loads(line)
        yield row["text"], {(*label["span"], label["entity_id"]) for label in row["labels"]}


def f1(n_right: int, n_said: int, n_gold: int) -> float:
    """F1; 0 where nothing is right.

    >>> f1(1, 2, 2)
    0.5
    """
    return round(2 * n_right / max(n_said + n_gold, 1), 3)


def scores(graph: KnowledgeGraph, texts: list[Marked], tagger: str | None) -> dict[str, float]:
    """F1 of spans, and of links to entities of the graph."""
    linker = open_linker(LinkerSettings(kg="a graph in memory", tagger=tagger), graph)
    spans, links = [0, 0, 0], [0, 0, 0]
    for (_, gold), linked in zip(texts, linker.link([text for text, _ in texts]), strict=True):
        inside = {row for row in gold if row[2] in graph.entities}
        found_links = {(k.start, k.end, k.entity) for k in linked.links if k.entity is not None}
        found_spans = {(k.start, k.end) for k in linked.links}
        gold_spans = {row[:2] for row in gold}
        for counts, ours, theirs in (
            (spans, found_spans, gold_spans), (links, found_links, inside)
        ):  # fmt: skip
            counts[0] += len(set(ours) & set(theirs))
            counts[1] += len(ours)
            counts[2] += len(theirs)
    return {"spans": f1(*spans), "links": f1(*links)}


def main() -> None:
    """Print a line for each set, without and with the tagger."""
    data = Path(os.environ["KEPT_DATA"])
    graph = labelled_graph(data)
    for name in SETS:
        texts = list(marked_texts(data, name))
        for tagger in (None, sys.argv[1]):
            print(name, len(texts), tagger or "names of the graph alone",
                  scores(graph, texts, tagger))  # fmt: skip


if __name__ == "__main__":
    main()
