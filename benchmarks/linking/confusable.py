"""Annotated texts, and a graph and candidates that make them hard to link."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from entity_linking import Candidate, DictionaryLinker, LinkedText
from entity_linking.names.priors import LABELS_FIRST
from entity_linking.scorers.context_words import words_of
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamageReport
from kg_loaders.reading.lines import read_lines

MAX_CANDIDATES = 30


def draw(*key: str) -> float:
    """A number in [0, 1) from a hash."""
    digest = hashlib.sha256("\n".join(key).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


# ---- texts -----------------------------------------------------------------
def merged(examples: Iterable[Any], n_texts: int) -> list[LinkedText]:
    """One text with all links that examples put into it; overlaps keep the first."""
    links: dict[str, dict[tuple[int, int], Any]] = {}
    for example in examples:
        mine = links.setdefault(example.linked.text, {})
        for link in example.linked.links:
            span = (link.mention.start, link.mention.end)
            if all(span[1] <= a or b <= span[0] for a, b in mine):
                mine[span] = link
    chosen = sorted(links, key=lambda text: draw("text", text))[:n_texts]
    return [
        LinkedText(text, tuple(links[text][span] for span in sorted(links[text])), str(i))
        for i, text in enumerate(chosen)
    ]


def gold_of(text: LinkedText) -> list[str]:
    return [link.entity for link in text.links if link.entity is not None]


# ---- graph -----------------------------------------------------------------
def rows(path: Path) -> Iterator[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def facts(data: Path) -> Iterator[tuple[str, str, str]]:
    for part in ("train", "valid", "test"):
        triples_file = data / f"codex/codex-m/{part}.txt"
        path = triples_file if triples_file.exists() else triples_file.with_suffix(".txt.gz")
        for _, _, raw in read_lines(path, DamageReport()):
            head, relation, tail = raw.decode().split("\t")
            yield head, relation, tail
    for path in sorted((data / "lama/TREx").glob("P*.jsonl.gz")):
        with gzip.open(path, "rt") as file:
            for row in map(json.loads, file):
                yield row["sub_uri"], row["predicate_id"], row["obj_uri"]
    with tarfile.open(data / "lama/lpaqa_TREx_train.tar.gz") as tar:
        for member in sorted(tar.getnames()):
            if member.endswith(".jsonl"):
                file = io.TextIOWrapper(tar.extractfile(member), "utf-8")  # type: ignore[arg-type]
                for row in map(json.loads, file):
                    yield row["sub_uri"], Path(member).stem, row["obj_uri"]


def build_graph(data: Path, stated: set[tuple[str, str]]) -> KnowledgeGraph:
    labels = {q: label for q, label, *_ in rows(data / "wikidata_labels/qid_labels.tsv.gz")}
    labels = {q: label for q, label in labels.items() if q[:1] == "Q" and draw("in", q) >= 0.1}
    records: list[Any] = [Text(q, TextKind.LABEL, label, "en") for q, label in labels.items()]
    aliases = rows(data / "wikidata_labels/qid_aliases.tsv.gz")
    records += [Text(q, TextKind.ALIAS, a, "en") for q, a, *_ in aliases if q in labels]
    with gzip.open(data / "wikidata_labels/fb_entity2wikidata.json.gz", "rt") as file:
        for row in json.load(file).values():
            q, about = row["wikidata_id"], row.get("description")
            if q in labels and about:
                records.append(Text(q, TextKind.DESCRIPTION, about, "en"))
    with gzip.open(data / "codex/types_en.json.gz", "rt") as file:
        types = {q: row["label"] for q, row in json.load(file).items()}
    with gzip.open(data / "codex/entity2types.json.gz", "rt") as file:
        for q, kinds in json.load(file).items():
            if q in labels:
                records += [Text(q, TextKind.TYPE, types.get(k, k), "en") for k in kinds]
    for head, relation, tail in facts(data):
        hidden = (head, tail) in stated and draw("stated", *sorted((head, tail))) < 0.5
        if head in labels and tail in labels and not hidden:
            records.append(Triple(head, relation, tail))
    return graph_from_records(records, licence="see the sources")


class Confusable:
    """The dictionary's candidates, then entities whose label holds all words of the mention."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._dictionary = DictionaryLinker(
            graph, max_candidates=MAX_CANDIDATES, exact=True, formula=LABELS_FIRST
        )
        self._names = graph.entities
        degree = np.diff(graph.out_offsets) + np.diff(graph.in_offsets)
        labels = [graph.label(entity) for entity in range(graph.n_entities)]
        words = words_of(labels)
        self._bearers: dict[str, list[int]] = defaultdict(list)
        for word, entity in zip(words.values, words.text_of.tolist(), strict=True):
            self._bearers[word].append(entity)
        for bearers in self._bearers.values():
            bearers.sort(key=lambda entity: (-degree[entity], entity))

    def propose(self, texts: Sequence[LinkedText]) -> list[LinkedText]:
        known: dict[str, tuple[Candidate, ...]] = {}
        proposed = []
        for text in self._dictionary.disambiguate(texts):
            links = []
            for link in text.links:
                surface = text.text[link.mention.start : link.mention.end]
                if surface not in known:
                    known[surface] = self._widened(surface, link.candidates)
                links.append(replace(link, candidates=known[surface]))
            proposed.append(replace(text, links=tuple(links)))
        return proposed

    def _widened(self, surface: str, exact: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        """A name that is only part of a label weighs a tenth of an alias."""
        lists = [self._bearers.get(word, []) for word in dict.fromkeys(words_of([surface]).values)]
        lists.sort(key=len)
        others = [set(each) for each in lists[1:]]
        taken = {candidate.entity for candidate in exact}
        more = []
        for entity in lists[0] if lists else []:
            if len(more) + len(exact) == MAX_CANDIDATES:
                break
            name = self._names.name(entity)
            if name not in taken and all(entity in other for other in others):
                taken.add(name)
                more.append(name)
        weights = [10 * c.prior for c in exact] + [0.1] * len(more)
        entities = [c.entity for c in exact] + more
        total = sum(weights)
        return tuple(
            Candidate(entity, weight / total, weight / total)
            for entity, weight in zip(entities, weights, strict=True)
        )
