"""What the experiment stands on: graph, documents to train and calibrate on, benchmarks.

The graph and the documents are kept in the run folder and opened from there the next time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entity_linking.annotations import read_jsonl, write_jsonl
from entity_linking.mentions import LinkedText
from experiments.entity_linking.config import LinkingStudy
from experiments.entity_linking.inputs import texts as annotated
from experiments.entity_linking.inputs.benchmarks import Benchmarks, read_articles, read_benchmarks
from experiments.entity_linking.inputs.graph import build_graph, counts, label_sources
from experiments.entity_linking.inputs.texts import Annotated
from kept.hosts import load_tokenizer
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport
from kg_loaders.disk.writing import write_text

REPORT, GRAPH, COUNTS = "world.json", "graph", "counts.json"
PARTS = ("train", "held_out")


@dataclass(frozen=True)
class LinkingData:
    """`surfaces` are counts `(surface, entity, count)`; `documents` are to train and calibrate on.

    `counts` are what the tables report.
    """

    graph: KnowledgeGraph
    surfaces: list[tuple[str, str, int]]
    documents: dict[str, tuple[LinkedText, ...]]
    benchmarks: Benchmarks
    counts: dict[str, Any]


def open_world(
    root: Path, study: LinkingStudy, folder: Path, announce: Callable[[str], None]
) -> LinkingData:
    """The world in `folder`, made first if it is not there; a minute of processor time."""
    if not (folder / REPORT).exists():
        announce("reading sources")
        _make(root, study, folder)
    return LinkingData(
        KnowledgeGraph.open(folder / GRAPH),
        [tuple(row) for row in json.loads((folder / COUNTS).read_text(encoding="utf-8"))],
        {name: tuple(read_jsonl(folder / f"{name}.jsonl", DamageReport())) for name in PARTS},
        read_benchmarks(root),
        json.loads((folder / REPORT).read_text(encoding="utf-8")),
    )


def _make(root: Path, study: LinkingStudy, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    plan, benchmarks = study.texts, read_benchmarks(root)
    texts_read, shared, parts = divided(root, study)
    gold = {name: [t.linked for t in documents] for name, documents in benchmarks.items()}
    graph = build_graph(root)
    graph.save(folder / GRAPH, force=True)
    counted = [row for row in annotated.count_surfaces(parts["counts"]) if row[1] in graph.entities]
    write_text(folder / COUNTS, json.dumps(counted), force=True)
    numbers: dict[str, Any] = {}
    for name, most in (("train", plan.n_train), ("held_out", plan.n_held_out)):
        documents = make_documents(parts[name], graph, study, most)
        write_jsonl(documents, folder / f"{name}.jsonl", force=True)
        links = [link for text in documents for link in text.links]
        numbers[name] = {
            "documents": len(documents),
            "mentions": len(links),
            "NIL": sum(link.entity is None for link in links),
        }
    counts_of_world = {
        "graph": counts(graph),
        "counted surfaces": {"pairs": len(counted), "links": sum(n for *_, n in counted)},
        "annotated texts": Counter(text.source for text in texts_read),
        "texts left out as they share words with a benchmark": {
            f"{source}: {name}": n
            for (source, name), n in Counter(
                (texts_read[i].source, name) for i, name in shared.items()
            ).items()
        },
        "parts": {name: Counter(t.source for t in part) for name, part in parts.items()},
        "documents": numbers,
        "gold": {name: _gold(root, graph, texts) for name, texts in gold.items()},
    }
    text = json.dumps(counts_of_world, indent=1, ensure_ascii=False)
    write_text(folder / REPORT, text + "\n", force=True)


def divided(
    root: Path, study: LinkingStudy
) -> tuple[list[Annotated], dict[int, str], dict[str, list[Annotated]]]:
    """Annotated texts, those that share words with a benchmark by place, and the others' parts."""
    texts_read = annotated.read_annotated(root, word_pieces(study.dense.host))
    whole = {name: [each.text for each in texts] for name, texts in read_articles(root).items()}
    shared = annotated.overlapping(texts_read, whole, study.texts.overlap_words)
    clean = [text for i, text in enumerate(texts_read) if i not in shared]
    return texts_read, shared, annotated.split(clean, study.texts.shares, seed=study.seed)


def word_pieces(host: str) -> list[str]:
    """The word pieces of a host's tokenizer in the order of their ids."""
    vocabulary: dict[str, int] = load_tokenizer(host).get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def make_documents(
    part: Sequence[Annotated], graph: KnowledgeGraph, study: LinkingStudy, most: dict[str, int]
) -> list[LinkedText]:
    """Documents of a part, at most so many a source, some mentions shortened, NIL out of graph."""
    plan, ways = study.texts, annotated.shortener(graph)
    merged = []
    for source, n in sorted(most.items()):
        of_source = [text for text in part if text.source.startswith(source)]
        documents = annotated.documents(of_source, most=plan.most_sentences, seed=study.seed)
        documents.sort(key=lambda text: annotated.uniform_value(study.seed, text.id))
        for text in documents[:n]:
            short = annotated.shortened(
                text, ways, first=plan.shorten_first, later=plan.shorten_later, seed=study.seed
            )
            merged.append(annotated.closed(short, graph.entities.__contains__))
    return merged


def _gold(root: Path, graph: KnowledgeGraph, texts: Sequence[LinkedText]) -> dict[str, Any]:
    links = [link for text in texts for link in text.links]
    entities = [link.entity for link in links if link.entity is not None]
    return {
        "documents": len(texts),
        "mentions of entities": len(entities),
        "NIL": len(links) - len(entities),
        "in graph": sum(entity in graph.entities for entity in entities) / len(entities),
        "label taken from": label_sources(root, entities),
    }
