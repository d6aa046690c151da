"""The data of this experiment: T-REx evidence sentences linked into the CoDEx-S graph.

Sources, all below the folder that KEPT_DATA names: `codex/codex-s` (training triples, names,
descriptions), `codex/relations_en.json`, `wikidata_labels/qid_aliases.tsv.gz`, `lama/TREx`.
Sentences about one subject stand together and form a document (objectives that ask for pairs of
texts draw successors there). A mention that T-REx annotates keeps its entity and has the
candidates that the graph's dictionary gives its surface; every other mention is the dictionary's.
Aliases of fewer than three characters are left out: country codes such as "in" and "is" would link
plain English words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from entity_linking.annotations.relations import RelationExample, read_trex, with_all_links
from entity_linking.dictionary import DictionaryLinker
from entity_linking.mentions import LinkedText
from entity_linking.names.priors import LABELS_FIRST
from kept.graphs.builder import BuilderConfig
from kept.hosts import load_tokenizer
from kept.inputs.views import builder_for
from kept.methods import Method
from kept.randomness import generator
from kept.tasks.datasets.public_files import codex_descriptions, codex_triples, json_of, table
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph, Record, Text, TextKind, graph_from_records
from kg_loaders.damage import DamageReport


@dataclass(frozen=True)
class Corpus:
    """A graph and documents of linked sentences, each with a link into the graph or more."""

    graph: KnowledgeGraph
    documents: tuple[tuple[LinkedText, ...], ...]

    def __repr__(self) -> str:
        n_texts = sum(map(len, self.documents))
        return f"Corpus({n_texts} sentences in {len(self.documents)} documents, {self.graph})"

    def split(self, n_held_out: int, *, seed: int) -> tuple[Corpus, Corpus]:
        """Training and held-out documents; the latter hold `n_held_out` sentences or a few more."""
        order = generator(seed, "held out").permutation(len(self.documents))
        sizes = np.cumsum([len(self.documents[i]) for i in order])
        cut = int(np.searchsorted(sizes, n_held_out)) + 1
        held_out = {int(i) for i in order[:cut]}
        parts: tuple[list[Any], list[Any]] = ([], [])
        for i, document in enumerate(self.documents):
            parts[i in held_out].append(document)
        return Corpus(self.graph, tuple(parts[0])), Corpus(self.graph, tuple(parts[1]))

    def data(
        self, chosen: Method, host: str, builder: BuilderConfig, objectives: Any
    ) -> WordGraphData:
        """These sentences as a method reads them."""
        tokenizer = load_tokenizer(host)
        return WordGraphData(
            [text for document in self.documents for text in document],
            self.graph,
            tokenizer,
            builder=builder_for(chosen, builder, {}, in_pretraining=True),
            view=chosen.view.of(self.graph, tokenizer),
            objectives=objectives,
            documents=[len(document) for document in self.documents],
        )


def read_corpus(root: Path, files: str = "P*.jsonl.gz") -> Corpus:
    """Read the T-REx files that match a pattern; all of them take about a CPU-minute."""
    graph = graph_from_records(
        _codex_s(root), sources=("CoDEx-S train",), licence="MIT; Wikidata CC0"
    )
    folder = root / "lama" / "TREx"
    if not (paths := sorted(folder.glob(files))):
        raise FileNotFoundError(f"{folder} holds no {files}")
    examples: list[RelationExample] = []
    for path in paths:
        examples += read_trex(path, DamageReport(), distinct=True)
    return Corpus(graph, link_documents(examples, graph))


def link_documents(
    examples: Sequence[RelationExample], graph: KnowledgeGraph
) -> tuple[tuple[LinkedText, ...], ...]:
    """Sentences by subject, each once, with the links described above."""
    linker = DictionaryLinker(graph, exact=True, formula=LABELS_FIRST)
    by_head: dict[str, list[RelationExample]] = {}
    for example in examples:
        by_head.setdefault(example.head, []).append(_with_certain_links(example))
    documents = []
    for of_head in by_head.values():
        annotated = with_all_links(of_head)
        linked = map(
            _merged, annotated, linker.disambiguate(annotated),
            linker.link([text.text for text in annotated]),
        )  # fmt: skip
        if document := tuple(text for text in linked if _reaches(text, graph)):
            documents.append(document)
    return tuple(documents)


def _with_certain_links(example: RelationExample) -> RelationExample:
    """Return an example with its links to entities, each with the confidence 1."""
    links = tuple(
        dataclasses.replace(link, candidates=(), confidence=1.0)
        for link in example.linked.links
        if link.entity is not None
    )
    return dataclasses.replace(example, linked=dataclasses.replace(example.linked, links=links))


def _merged(gold: LinkedText, relinked: LinkedText, plain: LinkedText) -> LinkedText:
    """Annotated mentions with the dictionary's candidates, and its other mentions."""
    annotated = [
        dataclasses.replace(link, candidates=relinked_link.candidates)
        for link, relinked_link in zip(gold.links, relinked.links, strict=True)
    ]
    mentions = [link.mention for link in annotated]
    others = [
        link
        for link in plain.links
        if all(link.mention.end <= m.start or link.mention.start >= m.end for m in mentions)
    ]
    links = sorted([*annotated, *others], key=lambda link: link.mention)
    return LinkedText(gold.text, tuple(links))


def _reaches(text: LinkedText, graph: KnowledgeGraph) -> bool:
    return any(link.entity is not None and link.entity in graph.entities for link in text.links)


# ---- CoDEx-S ---------------------------------------------------------------
def _codex_s(root: Path) -> Iterator[Record]:
    triples = list(codex_triples(root, ("s",)))
    yield from triples
    entities = {name for h, _, t in triples for name in (h, t)}
    descriptions = codex_descriptions(root)
    for row in table(root / "codex/codex-s/entity_text.tsv", is_quoted=True):
        if (name := row["qid"]) in entities:
            yield Text(name, TextKind.LABEL, row["name"], "en")
            if name in descriptions:
                yield Text(name, TextKind.DESCRIPTION, descriptions[name], "en")
    for row in table(root / "wikidata_labels/qid_aliases.tsv"):
        if row["qid"] in entities and len(row["alias"]) >= 3:
            yield Text(row["qid"], TextKind.ALIAS, row["alias"], "en")
    relations = json_of(root / "codex/relations_en.json")
    for name in sorted({triple.relation for triple in triples}):
        for kind, field in ((TextKind.LABEL, "label"), (TextKind.DESCRIPTION, "description")):
            if text := relations[name].get(field):
                yield Text(name, kind, text, "en", is_relation=True)
