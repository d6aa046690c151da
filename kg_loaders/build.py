"""From records to a `KnowledgeGraph`, and from files to a folder, all or nothing.

`FORMATS` names every reader; they are imported when first used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from kg_loaders import plugins
from kg_loaders.assembly import DEFAULT_LANGUAGES, Columns
from kg_loaders.budget import ReaderBudget
from kg_loaders.column_order import order_notes
from kg_loaders.counting import counted
from kg_loaders.damage import OPTION, DamagePolicy, DamageReport, Progress
from kg_loaders.disk.arrow import mask_array
from kg_loaders.disk.columns import replaced
from kg_loaders.disk.folder import GRAPH
from kg_loaders.disk.kinds import require_file_or_folder
from kg_loaders.disk.writing import refuse_folder, spilling, whole_file
from kg_loaders.errors import BudgetError, DamageError, SourceError
from kg_loaders.fact_types import fact_types, has_other_types, with_fact_types
from kg_loaders.formats.recognition import SAME_FAMILY, FileKind, recognise
from kg_loaders.literal_entities import literal_notes
from kg_loaders.plugins import Table
from kg_loaders.rdf.names import unread_names
from kg_loaders.reading.blocks import Block
from kg_loaders.reading.encodings import REMEDY as ENCODING_REMEDY
from kg_loaders.reading.unpacking import archive_member, data_name
from kg_loaders.reading.workers import Workers
from kg_loaders.records import Record, TextKind
from kg_loaders.spelling import did_you_mean
from kg_loaders.store import KnowledgeGraph
from kg_loaders.stored_blocks import blocks_of

if TYPE_CHECKING:
    from kg_loaders.large.spilled import SpilledColumns

N_LABELS = 100
"""Labels that are looked at before all are."""
N_REASONS = 10
"""Reasons for which units were skipped, in an error."""
CONCEPTNET_VERSIONS = ("-5.7.0", "-5.6.0", "-5.5.5", "-5.5.0")
"""In the names of its files, `conceptnet-assertions-5.7.0.csv.gz`."""


# ---- formats -------------------------------------------------------------------------------------
class Format(NamedTuple):
    """A reader `function(path, report, **options)` in `module`, and the names that suggest it.

    `in_blocks` names a function that reads the same in blocks, faster, if there is one;
    `by_workers` says that this takes `workers`, too. `takes` names those of the options `order`,
    `header` and `encoding` of tables that the reader has.
    """

    module: str
    suffixes: tuple[str, ...] = ()
    function: str = "read"
    takes_languages: bool = False
    in_blocks: str = ""
    by_workers: bool = False
    takes: tuple[str, ...] = ()


_TABLE = ("order", "header", "encoding")
_BUILT_IN: dict[str, Format] = {
    "tsv": Format(
        "kg_loaders.formats.tsv",
        (".tsv", ".txt", ".tab"),
        in_blocks="read_in_blocks",
        by_workers=True,
        takes=_TABLE,
    ),
    "texts": Format(
        "kg_loaders.formats.tsv",
        function="read_texts",
        in_blocks="read_texts_in_blocks",
        by_workers=True,
        takes=("header", "encoding"),
    ),
    "jsonl": Format("kg_loaders.formats.jsonl", (".jsonl", ".ndjson")),
    "openke": Format("kg_loaders.formats.openke", ("2id.txt",)),
    "rdf": Format(
        "kg_loaders.rdf.reader",
        (".nt", ".nq", ".ttl", ".trig", ".rdf", ".owl", ".xml", ".jsonld", ".n3", ".trix"),
        takes_languages=True,
        in_blocks="read_in_blocks",
        by_workers=True,
    ),
    "wikidata": Format(
        "kg_loaders.formats.wikidata",
        (".json",),
        takes_languages=True,
        in_blocks="read_in_blocks",
    ),
    "wordnet": Format("kg_loaders.formats.wordnet", ("/data.noun",)),
    "spo": Format("kg_loaders.formats.spo", (".spo",)),
    "neo4j": Format("kg_loaders.formats.tables.neo4j", takes=("encoding",)),
    "wikidata5m": Format(
        "kg_loaders.formats.wikidata5m",
        ("wikidata5m_entity.txt", "wikidata5m_relation.txt", "wikidata5m_text.txt"),
        in_blocks="read_in_blocks",
    ),
    "csv": Format("kg_loaders.formats.tables.csv_triples", (".csv",), takes=_TABLE),
    "parquet": Format(
        "kg_loaders.formats.tables.parquet",
        (".parquet", ".pq"),
        in_blocks="read_in_blocks",
        takes=("order", "header"),
    ),
    "conceptnet": Format(
        "kg_loaders.formats.conceptnet",
        tuple(f"assertions{version}.csv" for version in ("", *CONCEPTNET_VERSIONS)),
        takes_languages=True,
    ),
    "graphml": Format("kg_loaders.formats.graphml", (".graphml",)),
    "llamaindex": Format(
        "kg_loaders.formats.rag_graphs", ("graph_store.json",), function="read_llamaindex"
    ),
    "neo4j-graphrag": Format("kg_loaders.formats.rag_graphs", function="read_neo4j_graphrag"),
    "graphrag": Format("kg_loaders.formats.graphrag"),
    "json": Format("kg_loaders.formats.json_objects"),
    "obo": Format("kg_loaders.formats.obo", (".obo",)),
    "umls": Format(
        "kg_loaders.formats.umls",
        tuple(f"{table}.rrf" for table in ("mrconso", "mrrel", "mrdef", "mrsty")),
        takes_languages=True,
    ),
    "wnlmf": Format("kg_loaders.formats.wnlmf", takes_languages=True),
}
FORMATS = Table(plugins.LOADERS, _BUILT_IN, kind=Format, what="format")
"""Every format of graphs by its name: those of kept, then those of plugins."""

FORMAT_ALIASES: dict[str, tuple[str, dict[str, str]]] = {
    **{
        name: ("rdf", {"format": name})
        for name in (
            *("nt", "ntriples", "nq", "nquads", "ttl", "turtle", "trig", "xml", "owl"),
            *("jsonld", "n3", "trix"),
        )
    },
    "rdfxml": ("rdf", {"format": "rdf"}),
    "rdf/xml": ("rdf", {"format": "rdf"}),
    "json-ld": ("rdf", {"format": "jsonld"}),
    "n-triples": ("rdf", {"format": "nt"}),
    "n-quads": ("rdf", {"format": "nq"}),
}
"""Other names of a format, in `kept kg build --format` too, and the options that they stand for."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file (or folder) to read.

    `format` is a key of `FORMATS` or of `FORMAT_ALIASES`; without one the file's name and its first
    bytes show it.
    """

    path: Path
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def format_name(self) -> str:
        """A key of `FORMATS`; `SourceError` when there is none."""
        return self._resolved()[0]

    def _resolved(self) -> tuple[str, dict[str, str]]:
        """The key of `FORMATS`, and options that the file or an alias calls for."""
        if self.format is None:
            return resolve_format(self.path)
        name = self.format if self.format in FORMATS else self.format.lower()
        if name in FORMATS:
            return name, _syntax(self.path) if name == "rdf" else {}
        if name not in FORMAT_ALIASES:
            known = ", ".join((*FORMATS, *FORMAT_ALIASES))
            raise SourceError(f"format {self.format!r} is none of {known}")
        format, options = FORMAT_ALIASES[name]
        return format, dict(options)

    def read(
        self, report: DamageReport, languages: Sequence[str] | None = None
    ) -> Iterator[Record]:
        """Its records; `languages` limits formats that can tell them apart."""
        records: Iterator[Record] = self._reader("function")(
            self.path, report, **self._options(languages)
        )
        return records

    def read_in_blocks(
        self,
        report: DamageReport,
        languages: Sequence[str] | None = None,
        workers: Workers | None = None,
    ) -> Iterator[Record | Block]:
        """The same, many at once where the format's reader can; their order is another.

        By `workers` where it can that, too; else the report notes it.
        """
        format, options = FORMATS[self.format_name], self._options(languages)
        if workers is not None and format.by_workers:
            options["workers"] = workers
        elif workers is not None:
            workers.leave_out(self.path, report)
        records: Iterator[Record | Block] = self._reader(
            "in_blocks" if format.in_blocks else "function"
        )(self.path, report, **options)
        return records

    def _reader(self, which: str) -> Any:
        require_file_or_folder(self.path)
        format = FORMATS[self.format_name]
        return getattr(import_module(format.module), getattr(format, which))

    def _options(self, languages: Sequence[str] | None) -> dict[str, Any]:
        options = {**self._resolved()[1], **self.options}
        if languages is not None and FORMATS[self.format_name].takes_languages:
            options.setdefault("languages", languages)
        return options


def resolve_format(path: Path) -> tuple[str, dict[str, str]]:
    """The format of a file by its name and its first bytes, and options of the reader.

    The first bytes win where they are clear, but for a suffix that only a plugin has. Of names,
    compression aside, the longest suffix wins.
    Raises `SourceError` for what no reader here reads, with the next step.
    """
    if not path.exists() and archive_member(path) is None:
        is_listed = path.parent.is_dir() and os.access(path.parent, os.R_OK)
        names = os.listdir(path.parent) if is_listed else []
        raise SourceError(f"{path} does not exist{did_you_mean(path.name, names)}")
    if path.is_dir():
        if (path / "data.noun").exists():
            return "wordnet", {}
        if any(path.glob("MR*.RRF*")):
            return "umls", {}
        if import_module("kg_loaders.formats.graphrag").is_folder(path):
            return "graphrag", {}
        if (path / "manifest.json").is_file():
            raise SourceError(
                f"{path} is a graph that `kept kg build` made: use it as it is; for more facts "
                f"in it: kept kg add {path} FILE"
            )
        raise SourceError(_unknown(path))
    by_name = _format_of_name(path)
    is_sure = by_name in _NAMED_SURELY or (by_name is not None and by_name not in FORMATS.built_in)
    kind = None if is_sure else recognise(path)
    if kind is None or not (kind.is_sure or by_name is None):
        if by_name is None:
            raise SourceError(_unknown(path))
        return by_name, _syntax(path) if by_name == "rdf" else {}
    if kind.format not in FORMATS:
        raise SourceError(
            f"{path} is {kind.name}, which kept does not read; {kind.advice(path, FORMATS)}"
        )
    if kind.format == "rdf":
        return "rdf", _syntax(path, kind)
    return kind.format, dict(kind.options)


TABLES = ("tsv", "csv", "parquet")
_NAMED_SURELY = ("openke", "wordnet", "wikidata5m", "conceptnet", "umls")


def _unknown(path: Path) -> str:
    return f"cannot tell the format of {path} from its name; name one of {', '.join(FORMATS)}"


def _format_of_name(path: Path) -> str | None:
    """The format whose suffix the name has, the longest; of plugins where kept has none."""
    return _by_suffix(path, FORMATS.built_in) or _by_suffix(path, FORMATS)


def _by_suffix(path: Path, formats: Mapping[str, Format]) -> str | None:
    name = data_name(path).lower()
    fitting = [
        (len(suffix), format_name)
        for format_name, format in formats.items()
        for suffix in format.suffixes
        if name.endswith(suffix)
    ]
    return max(fitting)[1] if fitting else None


def _syntax(path: Path, kind: FileKind | None = None) -> dict[str, str]:
    """The option of the RDF reader for a file whose name does not show its syntax."""
    from kg_loaders.rdf.reader import SUFFIXES, format_of  # pyoxigraph takes time to import

    named = format_of(path)
    kind = kind or recognise(path)
    if kind is None or kind.format != "rdf":
        return {}
    syntax = kind.options["format"]
    family = next(family for family in SAME_FAMILY if syntax in family)
    return {} if named in family and named in SUFFIXES else {"format": syntax}


def with_table_options(
    sources: Iterable[Source | Path | str],
    *,
    order: str | None = None,
    header: str | None = None,
    encoding: str | None = None,
) -> list[Source]:
    """The same as sources, with the options of tables where their readers have them.

    An option that a source has of its own stays. Raises `SourceError` for one that none can take.
    """
    values = {"order": order, "header": header, "encoding": encoding}
    options = {name: value for name, value in values.items() if value is not None}
    named = [s if isinstance(s, Source) else Source(Path(s)) for s in sources]
    if not options:
        return named
    takes = [FORMATS[source.format_name].takes for source in named]
    for name in options:
        if not any(name in each for each in takes):
            fitting = ", ".join(key for key, format in FORMATS.items() if name in format.takes)
            raise SourceError(f"{name} is an option of tables ({fitting}), and none is to be read")
    return [
        replace(
            source,
            options={**{n: v for n, v in options.items() if n in takes_options}, **source.options},
        )
        for source, takes_options in zip(named, takes, strict=True)
    ]


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
    progress: Callable[[int, int], None] | None = None,
    onto: KnowledgeGraph | None = None,
    beyond_memory: int | None = None,
    n_workers: int = 1,
    order: str | None = None,
    header: str | None = None,
    encoding: str | None = None,
    types_of_facts: bool = False,
) -> tuple[KnowledgeGraph, DamageReport]:
    """Read `sources` into one graph, and save it to `out` when named; all or nothing.

    `languages` are preferred in that order, and alone read from formats that tell languages apart;
    None reads all and prefers English. `force` replaces a graph at `out` and a file at
    `quarantine`. `budget` is what each file may cost (default: that of the environment). `progress`
    is told how many bytes of the files have been read, and of how many. What `onto` holds is in the
    graph, too, as if its sources were read again. With `beyond_memory` the same graph is sorted by
    DuckDB in so many bytes and on the disk beside `out` (`kg_loaders.large`). `n_workers` read
    N-Triples, N-Quads and TSV, sort, hash and write, to the same bytes; the report notes what one
    read alone. Of tables `order` says what the columns are ("htr", "hrt--" or names of columns as
    "from,kind,to"), `header` whether the first row names them ("yes", "no", "auto"), and `encoding`
    that they are no UTF-8 ("latin-1"). With `types_of_facts` entities have the types that facts say
    (`kg_loaders.fact_types`: "instance of"), unless the sources give types of their own; a note in
    the report says how many.

    Raises `DamageError`, `SourceError` (as `BudgetError`), `StoreError`, `WriteError`,
    `MissingPackageError`.
    """
    named = with_table_options(sources, order=order, header=header, encoding=encoding)
    inputs = [source.path for source in named]
    if out is not None:
        refuse_folder(out, **replaced(GRAPH), force=force, inputs=inputs)
    aside = None if quarantine is None else Path(quarantine)
    budget = budget or ReaderBudget.from_environment()
    report = DamageReport(DamagePolicy(policy), aside, budget=budget, remedy=OPTION)
    with ExitStack() as stack:
        if aside is not None:
            whole = whole_file(aside, force=force, inputs=inputs)
            report.quarantine = stack.enter_context(whole)
            report.quarantine.touch()
        columns = stack.enter_context(_columns(out, beyond_memory, n_workers))
        workers = stack.enter_context(Workers(n_workers))
        columns.add(() if onto is None else blocks_of(onto))
        n_before, units = columns.n_records, []
        for number, source in enumerate(named):
            report.progress = _telling(progress, inputs, number)
            units.append(_read_source(source, columns, report, languages, workers))
        report.units = " and ".join(dict.fromkeys(units)) or "lines"
        fields = columns.fields(
            languages=_preferred(languages, onto),
            sources=[*(onto.manifest.sources if onto else ()), *map(_name_in_manifest, named)],
            licence=licence or (onto.manifest.licence if onto else ""),
        )
        graph = KnowledgeGraph(**fields)
        _count(report, columns.n_records - n_before, graph, onto)
        if types_of_facts:
            graph = _with_fact_types(graph, report, onto, beyond_memory, n_workers)
        _note_load(graph, report, onto)
        report.notes += [*literal_notes(graph), *_names_apart(graph), *_names_of_relations(graph)]
        if any(source.format_name in TABLES for source in named):
            report.notes += order_notes(graph)
        report.notes += unread_names(report.skipped)
        if out is not None:
            graph.save(out, force=force, n_threads=n_workers)
    report.quarantine = aside
    return (graph if out is None else KnowledgeGraph.open(out, n_threads=n_workers)), report


def _name_in_manifest(source: Source) -> str:
    """The name of a source as JSON can hold it: a byte that is not UTF-8 is written `\\xff`."""
    return os.fsencode(source.name).decode("utf-8", "backslashreplace")


@contextmanager
def _columns(
    out: str | Path | None, beyond_memory: int | None, n_threads: int
) -> Iterator[Columns | SpilledColumns]:
    """What takes records in; beyond memory in a folder beside `out`, which goes at the end."""
    if beyond_memory is None:
        yield Columns(n_threads)
        return
    from kg_loaders.large.spilled import SpilledColumns  # duckdb is optional

    if out is None:
        raise SourceError("a graph beyond memory is built into a folder; name it (out)")
    with spilling(Path(out)) as folder:
        yield SpilledColumns(folder, beyond_memory)


def _telling(
    progress: Callable[[int, int], None] | None, files: Sequence[Path], number: int
) -> Progress | None:
    """What the reader of `files[place]` tells its place to."""
    if progress is None:
        return None
    sizes = [file.stat().st_size if file.is_file() else 0 for file in files]
    done, n_bytes = sum(sizes[:number]), sum(sizes)
    return lambda n: progress(done + n, n_bytes)


def _read_source(
    source: Source,
    columns: Columns | SpilledColumns,
    report: DamageReport,
    languages: Sequence[str] | None,
    workers: Workers,
) -> str:
    report.units = "lines"
    format = source.format_name
    report.encoding_remedy = ENCODING_REMEDY if "encoding" in FORMATS[format].takes else ""
    try:
        columns.add(source.read_in_blocks(report, languages, workers))
    except BudgetError:
        raise
    except (DamageError, SourceError) as error:
        kind = None if source.path.is_dir() else recognise(source.path)
        if kind is None or kind.format == format or format == "texts":
            raise
        advice = f"{source.path} looks like {kind.name}: {kind.advice(source.path, FORMATS)}"
        raise type(error)(f"{error}; {advice}") from error
    finally:
        report.encoding_remedy = ""
    return report.units


def _preferred(languages: Sequence[str] | None, onto: KnowledgeGraph | None) -> Sequence[str]:
    if languages is not None:
        return languages
    return DEFAULT_LANGUAGES if onto is None else onto.manifest.preferred or onto.manifest.languages


def _with_fact_types(
    graph: KnowledgeGraph,
    report: DamageReport,
    onto: KnowledgeGraph | None,
    beyond_memory: int | None,
    n_threads: int,
) -> KnowledgeGraph:
    """The graph with the types of its facts, unless its texts give others; noted in the report.

    A graph that was built without them stays so when something is added to it.
    """
    facts = fact_types(graph)
    if not len(facts.pairs) or has_other_types(graph, facts):
        return graph
    if onto is not None:
        before = fact_types(onto)
        if len(before.pairs) and not any(map(len, map(onto.types, before.pairs[:1, 0].tolist()))):
            return graph
    relations = ", ".join(facts.relations)
    if beyond_memory is not None:
        report.notes.append(
            f"{len(facts.pairs):,} facts of {relations} give no types beyond memory; give --types"
        )
        return graph
    report.notes.append(
        f"{counted(len(facts.pairs), 'types', ',')} of "
        f"{counted(facts.n_entities, 'entities', ',')} taken from the facts of {relations}, "
        "since no file gives types; --no-types-of-facts leaves them out"
    )
    return with_fact_types(graph, facts, n_threads=n_threads)


def _note_load(graph: KnowledgeGraph, report: DamageReport, onto: KnowledgeGraph | None) -> None:
    """Write the counts of the load into the manifest, beside those of `onto`."""
    counts, faults = dict(report.counts()), dict(report.reasons)
    if onto is not None:
        for ours, theirs in (
            (counts, onto.manifest.load_counts), (faults, onto.manifest.load_faults),
        ):  # fmt: skip
            for name, n in theirs.items():
                ours[name] = ours.get(name, 0) + n
    graph.manifest = msgspec.structs.replace(graph.manifest, load_counts=counts, load_faults=faults)


def _names_apart(graph: KnowledgeGraph) -> list[str]:
    """A note where no entity with a name is in a triple: the files name others than they join."""
    texts = graph.entity_texts
    is_label = np.asarray(texts.kinds) == TextKind.LABEL
    named = np.unique(np.asarray(texts.nodes())[is_label])
    degrees = np.diff(graph.out_offsets) + np.diff(graph.in_offsets)
    if not len(named) or not graph.n_triples or degrees[named].any():
        return []
    first, joined = graph.entities.name(int(named[0])), graph.entities.name(int(degrees.argmax()))
    note = (
        f"none of the {len(named)} entities with a name is in a triple: names are of {first!r}, "
        f"triples of {joined!r}; give both files the same identifiers"
    )
    return [note]


def _names_of_relations(graph: KnowledgeGraph) -> list[str]:
    """A note where every label is a relation of the graph: the labels are a file of triples."""
    texts = graph.entity_texts
    is_label = np.asarray(texts.kinds) == TextKind.LABEL
    labels = texts.values.filter(mask_array(is_label))
    some = set(labels[:N_LABELS].to_pylist())
    if not some or not some.issubset(graph.relations):  # of a large graph, all are looked at last
        return []
    if not set(labels.to_pylist()).issubset(graph.relations):
        return []
    note = (
        f"every label of an entity is a relation of the graph, such as {min(some)!r}: a file of "
        "triples is given without --labels, whose lines are an identifier and a name"
    )
    return [note]


def _count(
    report: DamageReport, n_records: int, graph: KnowledgeGraph, onto: KnowledgeGraph | None
) -> None:
    """Count what the graph holds beyond `onto`."""
    report.n_triples = graph.n_triples - (onto.n_triples if onto else 0)
    report.n_texts = _n_texts(graph) - (_n_texts(onto) if onto else 0)
    report.n_duplicates = n_records - report.n_triples - report.n_texts
    report.check()
    if not n_records:
        skipped = [f"{reason}: {n}" for reason, n in report.skipped.items()]
        reasons = f"; skipped: {'; '.join(skipped[:N_REASONS])}" if skipped else ""
        if report.rejections:
            reasons += f"; the first line rejected: {report.rejections[0]}"
        if not report.n_lines:
            reasons += "; an empty file? A fact is a line: head, relation and tail"
        raise SourceError(f"no triple and no text was found: {report}{reasons}")


def _n_texts(graph: KnowledgeGraph) -> int:
    return len(graph.entity_texts) + len(graph.relation_texts)


# ---- records -----------------------------------------------------------------------------------
def graph_from_records(
    records: Iterable[Record | Block],
    *,
    languages: Sequence[str] = DEFAULT_LANGUAGES,
    sources: Sequence[str] = (),
    licence: str = "",
) -> KnowledgeGraph:
    """Build a graph in memory; `languages` are preferred in that order, others follow sorted."""
    columns = Columns()
    columns.add(records)
    fields = columns.fields(languages=languages, sources=sources, licence=licence)
    return KnowledgeGraph(**fields)
