"""From records to a `KnowledgeGraph`, and from files to a folder, all or nothing.

`FORMATS` names every reader; they are imported when first used.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.disk.columns import replaced
from kg_loaders.disk.folder import GRAPH
from kg_loaders.disk.writing import refuse_folder, whole_file
from kg_loaders.errors import SourceError
from kg_loaders.reading.budget import ReaderBudget
from kg_loaders.reading.lines import COMPRESSED
from kg_loaders.records import Record, Triple
from kg_loaders.store import KnowledgeGraph, assemble, offsets_of
from kg_loaders.texts import Texts
from kg_loaders.vocabulary import Vocabulary, strings

DEFAULT_LANGUAGES = ("en",)
MAX_NODES = MAX_TRIPLES = 2**31 - 1
MAX_LANGUAGES = 2**15 - 1


# ---- formats -------------------------------------------------------------------------------------
class Format(NamedTuple):
    """A reader `function(path, report, **options)` in `module`, and the names that suggest it."""

    module: str
    suffixes: tuple[str, ...] = ()
    function: str = "read"
    takes_languages: bool = False


FORMATS: dict[str, Format] = {
    "tsv": Format("kg_loaders.formats.tsv", (".tsv", ".txt")),
    "texts": Format("kg_loaders.formats.tsv", function="read_texts"),
    "jsonl": Format("kg_loaders.formats.jsonl", (".jsonl", ".ndjson")),
    "openke": Format("kg_loaders.formats.openke", ("2id.txt",)),
    "rdf": Format(
        "kg_loaders.rdf.reader",
        (".nt", ".nq", ".ttl", ".trig", ".rdf", ".owl", ".xml", ".jsonld", ".n3", ".trix"),
        takes_languages=True,
    ),
    "wikidata": Format("kg_loaders.formats.wikidata", (".json",), takes_languages=True),
    "wordnet": Format("kg_loaders.formats.wordnet", ("/data.noun",)),
    "spo": Format("kg_loaders.formats.spo", (".spo",)),
}


@dataclass(frozen=True, slots=True)
class Source:
    """A file (or folder) to read; `format` is a key of `FORMATS`, guessed from the name if None."""

    path: Path
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def format_name(self) -> str:
        """A key of `FORMATS`; `SourceError` when there is none."""
        if self.format is None:
            return guess_format(self.path)
        if self.format not in FORMATS:
            raise SourceError(f"format {self.format!r} is none of {', '.join(FORMATS)}")
        return self.format

    def read(
        self, report: DamageReport, languages: Sequence[str] | None = None
    ) -> Iterator[Record]:
        """Its records; `languages` limits formats that can tell them apart."""
        format = FORMATS[self.format_name]
        options = dict(self.options)
        if languages is not None and format.takes_languages:
            options.setdefault("languages", languages)
        records: Iterator[Record] = getattr(import_module(format.module), format.function)(
            self.path, report, **options
        )
        return records


def guess_format(path: Path) -> str:
    """The format whose suffix `path` has, compression aside; the longest suffix wins."""
    if not path.exists():
        raise SourceError(f"{path} does not exist")
    name = path.name.lower()
    for suffix in sorted(COMPRESSED):
        name = name.removesuffix(suffix)
    if path.is_dir():
        name = "/data.noun" if (path / "data.noun").exists() else ""
    fitting = [
        (len(suffix), format_name)
        for format_name, format in FORMATS.items()
        for suffix in format.suffixes
        if name.endswith(suffix)
    ]
    if not fitting:
        remedy = (
            "comma-separated files are not read: put TABs between the columns and call it .tsv"
            if name.endswith(".csv")
            else f"name one of {', '.join(FORMATS)}"
        )
        raise SourceError(f"cannot tell the format of {path} from its name; {remedy}")
    return max(fitting)[1]


# ---- files to a folder ---------------------------------------------------------------------------
def load(
    sources: Iterable[Source | Path | str],
    *,
    out: str | Path | None = None,
    policy: DamagePolicy | str = DamagePolicy.STOP,
    quarantine: str | Path | None = None,
    languages: Sequence[str] | None = None,
    licence: str = "",
    force: bool = False,
    budget: ReaderBudget | None = None,
) -> tuple[KnowledgeGraph, DamageReport]:
    """Read `sources` into one graph, and save it to `out` when named; all or nothing.

    `languages` are preferred in that order, and alone read from formats that tell languages apart;
    None reads all and prefers English. `force` replaces a graph at `out` and a file at
    `quarantine`. `budget` is what each file may cost (default: that of the environment). Raises
    `DamageError`, `SourceError` (as `BudgetError`), `StoreError`, `WriteError`.
    """
    named = [s if isinstance(s, Source) else Source(Path(s)) for s in sources]
    inputs = [source.path for source in named]
    if out is not None:
        refuse_folder(out, **replaced(GRAPH), force=force, inputs=inputs)
    aside = None if quarantine is None else Path(quarantine)
    budget = budget or ReaderBudget.from_environment()
    report = DamageReport(DamagePolicy(policy), aside, budget=budget)
    with ExitStack() as stack:
        if aside is not None:
            whole = whole_file(aside, force=force, inputs=inputs)
            report.quarantine = stack.enter_context(whole)
            report.quarantine.touch()
        columns = Columns()
        units = [_read_source(source, columns, report, languages) for source in named]
        report.units = " and ".join(dict.fromkeys(units)) or "lines"
        graph = columns.graph(
            languages=DEFAULT_LANGUAGES if languages is None else languages,
            sources=[source.name for source in named],
            licence=licence,
        )
        _count(report, columns, graph)
        graph.manifest = msgspec.structs.replace(
            graph.manifest, load_counts=report.counts(), load_faults=dict(report.reasons)
        )
        if out is not None:
            graph.save(out, force=force)
    report.quarantine = aside
    return (graph if out is None else KnowledgeGraph.open(out)), report


def _read_source(
    source: Source, columns: Columns, report: DamageReport, languages: Sequence[str] | None
) -> str:
    report.units = "lines"
    columns.add(source.read(report, languages))
    return report.units


def _count(report: DamageReport, columns: Columns, graph: KnowledgeGraph) -> None:
    report.n_triples = graph.n_triples
    report.n_texts = len(graph.entity_texts) + len(graph.relation_texts)
    report.n_duplicates = columns.n_records - report.n_triples - report.n_texts
    report.check()
    if not columns.n_records:
        first = f"; the first line rejected: {report.rejections[0]}" if report.rejections else ""
        raise SourceError(f"no triple and no text was found: {report}{first}")


# ---- records to arrays ---------------------------------------------------------------------------
class Columns:
    """Records as they come, in flat arrays with provisional ids; `graph` sorts and seals them."""

    def __init__(self) -> None:
        self._entities: dict[str, int] = {}
        self._relations: dict[str, int] = {}
        self._triples = array("i")
        self._texts = (_TextColumns(), _TextColumns())

    @property
    def n_records(self) -> int:
        """Records added so far, duplicates included."""
        return len(self._triples) // 3 + sum(len(texts.values) for texts in self._texts)

    def add(self, records: Iterable[Record]) -> None:
        """Take records in; `SourceError` beyond two thousand million triples."""
        entities, relations = self._entities, self._relations
        extend, entity_id, relation_id = (
            self._triples.extend, entities.setdefault, relations.setdefault,
        )  # fmt: skip
        for record in records:
            if isinstance(record, Triple):
                head, relation, tail = record
                extend(
                    (
                        entity_id(head, len(entities)),
                        relation_id(relation, len(relations)),
                        entity_id(tail, len(entities)),
                    )
                )
            elif record.is_relation:
                self._texts[1].add(relation_id(record.node, len(relations)), record)
            else:
                self._texts[0].add(entity_id(record.node, len(entities)), record)
        if len(self._triples) // 3 > MAX_TRIPLES or len(entities) > MAX_NODES:
            raise SourceError(f"a graph holds at most {MAX_TRIPLES} triples and as many entities")

    def graph(
        self, *, languages: Sequence[str], sources: Sequence[str], licence: str
    ) -> KnowledgeGraph:
        """Sort names and rows, drop duplicates, and empty these columns."""
        entities, entity_ranks = _sort_names(self._entities)
        relations, relation_ranks = _sort_names(self._relations)
        triples = np.frombuffer(self._triples, np.int32).reshape(-1, 3).copy()
        triples[:, 0], triples[:, 2] = entity_ranks[triples[:, 0]], entity_ranks[triples[:, 2]]
        triples[:, 1] = relation_ranks[triples[:, 1]]
        seen = {name for texts in self._texts for name in texts.languages}
        names = [*dict.fromkeys(languages), *sorted(seen.difference(languages))]
        if len(names) > MAX_LANGUAGES:
            raise SourceError(
                f"texts in {len(names)} languages, and a graph holds at most {MAX_LANGUAGES}; a "
                "damaged file may make up names of languages: name those you need (--language)"
            )
        return assemble(
            triples=triples,
            entities=entities,
            relations=relations,
            entity_texts=self._texts[0].seal(entity_ranks, names),
            relation_texts=self._texts[1].seal(relation_ranks, names),
            languages=names,
            sources=sources,
            licence=licence,
        )


class _TextColumns:
    def __init__(self) -> None:
        self.nodes, self.kinds = array("i"), array("B")
        self.language_ids, self.counts = array("i"), array("i")
        self.values: list[str] = []
        self.languages: dict[str, int] = {}

    def add(self, node: int, text: Any) -> None:
        languages = self.languages
        self.nodes.append(node)
        self.kinds.append(text.kind)
        self.language_ids.append(languages.setdefault(text.language, len(languages)))
        self.counts.append(text.frequency)
        self.values.append(text.value)

    def seal(self, node_ranks: NDArray[np.int32], names: Sequence[str]) -> Texts:
        """Sorted by (node, kind, language, -count, value); of equal texts the highest count."""
        order = {name: rank for rank, name in enumerate(names)}
        language_ranks = np.array([order[name] for name in self.languages], np.int16)
        nodes = node_ranks[np.frombuffer(self.nodes, np.int32)]
        kinds = np.frombuffer(self.kinds, np.uint8)
        languages = language_ranks[np.frombuffer(self.language_ids, np.int32)]
        counts = np.frombuffer(self.counts, np.int32)
        values = strings(self.values).dictionary_encode()
        distinct, ranks = _sort_strings(values.dictionary)
        value_ranks = ranks[values.indices.to_numpy()]

        columns = np.stack([nodes, kinds, languages, value_ranks])
        by_value = np.lexsort((-counts, *columns[::-1]))
        text = columns[:, by_value]
        first = np.ones(len(nodes), np.bool_)
        first[1:] = (text[:, 1:] != text[:, :-1]).any(axis=0)
        kept = by_value[first]
        keys = (value_ranks[kept], -counts[kept], languages[kept], kinds[kept], nodes[kept])
        rows = kept[np.lexsort(keys)]
        return Texts(
            offsets=offsets_of(nodes[rows], len(node_ranks)),
            kinds=kinds[rows],
            languages=languages[rows],
            counts=counts[rows],
            values=distinct.take(pa.array(value_ranks[rows])),
            language_names=names,
        )


def _sort_names(ids: Mapping[str, int]) -> tuple[Vocabulary, NDArray[np.int32]]:
    names, ranks = _sort_strings(strings(ids))
    return Vocabulary(names), ranks


def _sort_strings(
    values: pa.LargeStringArray,
) -> tuple[pa.LargeStringArray, NDArray[np.int32]]:
    """Distinct strings by code point, and the rank of each."""
    order = pc.sort_indices(values).to_numpy()
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    return values.take(pa.array(order)), ranks


def graph_from_records(
    records: Iterable[Record],
    *,
    languages: Sequence[str] = DEFAULT_LANGUAGES,
    sources: Sequence[str] = (),
    licence: str = "",
) -> KnowledgeGraph:
    """Build a graph in memory; `languages` are preferred in that order, others follow sorted."""
    columns = Columns()
    columns.add(records)
    return columns.graph(languages=languages, sources=sources, licence=licence)
