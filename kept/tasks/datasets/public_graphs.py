"""Graphs and linked texts made from public files, by name; all below one folder of data.

Experiments say `kg: wikidata` instead of a folder. What a graph is made of is in its sources.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from entity_linking.annotations.relations import read_trex
from entity_linking.mentions import LinkedText
from kept.errors import ConfigError
from kept.suggestions import no_such
from kept.tasks.datasets.public_files import (
    codex_descriptions,
    codex_triples,
    content,
    freebase_descriptions,
    json_of,
    lpaqa_facts,
    relation_names,
    table,
    trex_facts,
)
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamageReport
from kg_loaders.formats import wordnet
from kg_loaders.records import Record

_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")
TYPE = "P31"
"""Instance of: joins an entity and each of its types."""


def public_graph(name: str, root: Path, around: Collection[str] | None = None) -> KnowledgeGraph:
    """The graph called `name` from the files below `root`.

    With `around`, identifiers of entities: only triples that touch one of them, and of the others
    only the names, so that the graph is as large as a task needs. ConfigError: an unknown name.
    """
    if name not in GRAPHS:
        raise no_such("public graph", name, sorted(GRAPHS))
    triples, sources, licence = GRAPHS[name](root)
    if around is not None:
        inside = frozenset(around)
        triples = [t for t in triples if t.head in inside or t.tail in inside]
    entities = dict.fromkeys([*(around or ()), *(e for t in triples for e in (t.head, t.tail))])
    relations = dict.fromkeys(t.relation for t in triples)
    named = TEXTS_OF.get(name, _texts)(root)
    texts = [t for t in named if t.node in (relations if t.is_relation else entities)]
    return graph_from_records([*triples, *texts], sources=sources, licence=licence)


def public_texts(name: str, root: Path) -> list[LinkedText]:
    """Linked texts called `name`, each once, in the order of the files."""
    if name not in TEXTS:
        raise ConfigError(f"there are no public texts {name!r}; there are {sorted(TEXTS)}")
    return TEXTS[name](root)


# ---- triples ---------------------------------------------------------------------------------
def _wikidata(root: Path) -> tuple[list[Triple], Sequence[str], str]:
    """Everything here that joins Wikidata's entities: CoDEx, T-REx, LPAQA, types."""
    codex = codex_triples(root, ("s", "m"), ("train", "valid", "test"))
    parts = (codex, trex_facts(root), lpaqa_facts(root), _types(root))
    triples = list(dict.fromkeys(triple for part in parts for triple in part))
    sources = ("CoDEx-S and CoDEx-M", "LAMA T-REx facts", "LPAQA training facts", "CoDEx types")
    return triples, sources, "CC BY-NC 4.0 (T-REx part); CoDEx is MIT, Wikidata CC0"


def _codex_s(root: Path) -> tuple[list[Triple], Sequence[str], str]:
    """CoDEx-S, its training triples alone."""
    triples = list(codex_triples(root, ("s",)))
    return triples, ("CoDEx-S train",), "MIT; Wikidata CC0"


def _codex_types(root: Path) -> tuple[list[Triple], Sequence[str], str]:
    """The types of CoDEx's entities alone."""
    return list(_types(root)), ("CoDEx types",), "MIT; Wikidata CC0"


def _types(root: Path) -> Iterator[Triple]:
    for entity, types in json_of(root / "codex/entity2types.json").items():
        for each in types:
            yield Triple(entity, TYPE, each)


def _wordnet(root: Path) -> tuple[list[Triple], Sequence[str], str]:
    """WordNet's synsets; relations between words join their synsets."""
    triples = [record for record in _wordnet_records(root) if isinstance(record, Triple)]
    return triples, ("WordNet",), "WordNet licence"


def _wordnet_texts(root: Path) -> Iterator[Text]:
    return (record for record in _wordnet_records(root) if isinstance(record, Text))


def _wordnet_records(root: Path) -> Iterator[Record]:
    """From the folder `wordnet`, or where the system has it."""
    folder = root / "wordnet"
    return wordnet.read(folder if folder.is_dir() else None, DamageReport(), lexical="synsets")


def _conceptnet(root: Path) -> tuple[list[Triple], Sequence[str], str]:
    """ConceptNet's 100,000 training triples of Li et al. 2016; names are identifiers."""
    lines = content(root / "kgc/conceptnet100k/train.txt").splitlines()
    rows = (line.split("\t")[:3] for line in lines if line)
    triples = [Triple(head, relation, tail) for relation, head, tail in rows]
    return list(dict.fromkeys(triples)), ("ConceptNet (CN-100K, train)",), "CC BY-SA 4.0"


def _conceptnet_texts(root: Path) -> Iterator[Text]:
    """Every name as its own label; relations in words: "at location"."""
    triples, _, _ = _conceptnet(root)
    for name in dict.fromkeys(end for t in triples for end in (t.head, t.tail)):
        yield Text(name, TextKind.LABEL, name.replace("_", " "), "en")
    for relation in dict.fromkeys(t.relation for t in triples):
        words = _HUMP.sub(" ", relation).lower()
        yield Text(relation, TextKind.LABEL, words, "en", is_relation=True)


GRAPHS: dict[str, Callable[[Path], tuple[list[Triple], Sequence[str], str]]] = {
    "wikidata": _wikidata,
    "codex-s": _codex_s,
    "codex-types": _codex_types,
    "wordnet": _wordnet,
    "conceptnet": _conceptnet,
}
TEXTS_OF: dict[str, Callable[[Path], Iterator[Text]]] = {
    "wordnet": _wordnet_texts,
    "conceptnet": _conceptnet_texts,
}
"""Names of graphs that are not Wikidata's."""


# ---- labels, aliases, descriptions -----------------------------------------------------------
def _texts(root: Path) -> Iterator[Text]:
    labels = {row["qid"]: row["label"] for row in table(root / "wikidata_labels/qid_labels.tsv")}
    for qid, row in json_of(root / "codex/types_en.json").items():
        labels.setdefault(qid, row["label"])
    for qid, label in labels.items():
        if label:
            yield Text(qid, TextKind.LABEL, label, "en")
    for row in table(root / "wikidata_labels/qid_aliases.tsv"):
        yield Text(row["qid"], TextKind.ALIAS, row["alias"], "en")
    for qid, description in (freebase_descriptions(root) | codex_descriptions(root)).items():
        yield Text(qid, TextKind.DESCRIPTION, description, "en")
    for name, label in ({TYPE: "instance of"} | relation_names(root)).items():
        yield Text(name, TextKind.LABEL, label, "en", is_relation=True)


def _trex_texts(root: Path) -> list[LinkedText]:
    """Evidence sentences of T-REx; one that states several facts has the links of the first."""
    texts: dict[str, LinkedText] = {}
    for path in sorted((root / "lama/TREx").glob("P*.jsonl.gz")):
        for example in read_trex(path, DamageReport(), distinct=True):
            texts.setdefault(example.linked.text, example.linked)
    return list(texts.values())


TEXTS: dict[str, Callable[[Path], list[LinkedText]]] = {"trex": _trex_texts}
