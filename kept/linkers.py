"""From settings to a linker: the one place where the parts of linking are put together.

The command line, the spaCy component, caches and experiments all ask `open_linker`. Without an
index everything is made in memory from the graph alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from entity_linking.cache import fingerprint
from entity_linking.dictionary import CASES, Case, DictionaryLinker
from entity_linking.errors import LinkIndexError, LinkingError
from entity_linking.parts import Disambiguator
from kg_loaders import KnowledgeGraph, Source, TextKind, load
from kg_loaders.store import Texts, assemble

Method = Literal["prior", "overlap", "dense", "coherence", "mix", "trained"]
METHODS: tuple[Method, ...] = get_args(Method)
IDENTIFIERS = "its identifiers as names"
"""Stands among the sources of a graph that had no names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkerSettings:
    """What makes a linker; checked when made, written as JSON, sent to other processes.

    `kg` is the folder of a graph, or a file that `kept kg build` reads, then with the files
    `labels` and `aliases`. `index` is a folder that `kept link index` made, `model` one that
    `kept link train` made.
    """

    kg: str
    labels: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    index: str | None = None
    model: str | None = None
    method: Method = "prior"
    case: Case = "smart"
    min_prior: float = 0.0
    nil_below: float = 0.0
    min_length: int = 2
    languages: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("method", self.method, METHODS),
            ("case", self.case, CASES),
        ):
            if value not in choices:
                raise LinkingError(f"{name} is {value!r}; choose one of {', '.join(choices)}")
        if (self.labels or self.aliases) and Path(self.kg).is_dir():
            raise LinkingError(
                f"{self.kg} is a folder and has its names; labels and aliases go with a file, or "
                "into the folder by `kept kg build`"
            )


def open_graph(settings: LinkerSettings) -> KnowledgeGraph:
    """The graph of the settings; one without any name is taken by its identifiers."""
    if not Path(settings.kg).is_file():
        return by_identifiers(KnowledgeGraph.open(settings.kg))
    options = {"language": (settings.languages or ("en",))[0], "is_relation": False}
    sources = [Source(Path(settings.kg))]
    for files, columns in (
        (settings.labels, ("label", "description")),
        (settings.aliases, ("alias", "count")),
    ):
        sources += [Source(Path(f), "texts", {**options, "columns": columns}) for f in files]
    graph, _ = load(sources, languages=settings.languages)
    return by_identifiers(graph)


def by_identifiers(graph: KnowledgeGraph) -> KnowledgeGraph:
    """`graph`; if it has no label and no alias at all, with its identifiers as labels.

    An underscore in them is a blank. The other texts stay; the content hash becomes another.
    """
    texts = graph.entity_texts
    kinds = np.asarray(texts.kinds)
    if np.isin(kinds, (TextKind.LABEL, TextKind.ALIAS)).any():
        return graph
    languages = texts.language_names
    if "" not in languages:
        languages = (*languages, "")
    first = np.asarray(texts.offsets)[:-1]  # of each entity; a label comes before all else
    values = np.array([None, *texts.values.to_pylist()], object)[1:]
    names = [name.replace("_", " ") for name in graph.entities]
    named = Texts(
        offsets=texts.offsets + np.arange(graph.n_entities + 1),
        kinds=np.insert(kinds, first, TextKind.LABEL),
        languages=np.insert(texts.languages, first, languages.index("")),
        counts=np.insert(texts.counts, first, 0),
        values=pa.array(np.insert(values, first, names).tolist(), pa.large_string()),
        language_names=languages,
    )
    return assemble(
        triples=graph.triples,
        entities=graph.entities,
        relations=graph.relations,
        entity_texts=named,
        relation_texts=graph.relation_texts,
        languages=languages,
        sources=(*graph.manifest.sources, IDENTIFIERS),
        licence=graph.manifest.licence,
    )


def open_linker(settings: LinkerSettings, graph: KnowledgeGraph | None = None) -> Disambiguator:
    """The linker of the settings; `graph` saves opening it again."""
    graph = open_graph(settings) if graph is None else graph
    return DictionaryLinker(
        graph,
        case=settings.case,
        min_prior=settings.min_prior,
        nil_below=settings.nil_below,
        min_length=settings.min_length,
        languages=settings.languages,
    )


def linker_key(settings: LinkerSettings, graph: KnowledgeGraph) -> str:
    """Names the linker for a cache: what its folders hold counts, not where they lie."""
    told = asdict(settings)
    for name in ("kg", "labels", "aliases"):
        del told[name]  # the graph's hash says it all
    for name in ("index", "model"):
        if told[name] is not None:
            told[name] = _hash_of_manifests(Path(told[name]))
    return fingerprint(graph.content_hash, told)


def _hash_of_manifests(folder: Path) -> str:
    manifests = sorted(folder.rglob("*.json"))
    if not manifests:
        raise LinkIndexError(f"{folder} holds no manifest; `kept link index` and `train` make one")
    hashed = hashlib.sha256()
    for path in manifests:
        hashed.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return hashed.hexdigest()
