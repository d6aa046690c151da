"""From records to a `KnowledgeGraph`, and from files to a folder, all or nothing.

`FORMATS` names every reader; they are imported when first used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kg_loaders.assembly import DEFAULT_LANGUAGES, Columns
from kg_loaders.damage import OPTION, DamagePolicy, DamageReport
from kg_loaders.disk.columns import replaced
from kg_loaders.disk.folder import GRAPH
from kg_loaders.disk.writing import refuse_folder, spilling, whole_file
from kg_loaders.errors import SourceError
from kg_loaders.growth.stored import blocks_of
from kg_loaders.reading.blocks import Block
from kg_loaders.reading.budget import ReaderBudget
from kg_loaders.reading.unpacking import COMPRESSED, Progress
from kg_loaders.reading.workers import Workers
from kg_loaders.records import Record
from kg_loaders.store import KnowledgeGraph

if TYPE_CHECKING:
    from kg_loaders.large.spilled import SpilledColumns

CONCEPTNET_VERSIONS = ("-5.7.0", "-5.6.0", "-5.5.5", "-5.5.0")
"""In the names of its files, `conceptnet-assertions-5.7.0.csv.gz`."""


# ---- formats -------------------------------------------------------------------------------------
class Format(NamedTuple):
    """A reader `function(path, report, **options)` in `module`, and the names that suggest it.

    `in_blocks` names a function that reads the same in blocks, faster, if there is one;
    `by_workers` says that this takes `workers`, too.
    """

    module: str
    suffixes: tuple[str, ...] = ()
    function: str = "read"
    takes_languages: bool = False
    in_blocks: str = ""
    by_workers: bool = False


FORMATS: dict[str, Format] = {
    "tsv": Format(
        "kg_loaders.formats.tsv", (".tsv", ".txt"), in_blocks="read_in_blocks", by_workers=True
    ),
    "texts": Format(
        "kg_loaders.formats.tsv",
        function="read_texts",
        in_blocks="read_texts_in_blocks",
        by_workers=True,
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
    "neo4j": Format("kg_loaders.formats.neo4j"),
    "wikidata5m": Format(
        "kg_loaders.formats.wikidata5m",
        ("wikidata5m_entity.txt", "wikidata5m_relation.txt", "wikidata5m_text.txt"),
        in_blocks="read_in_blocks",
    ),
    "csv": Format("kg_loaders.formats.tables.csv_triples", (".csv",)),
    "parquet": Format(
        "kg_loaders.formats.tables.parquet", (".parquet", ".pq"), in_blocks="read_in_blocks"
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
        format = FORMATS[self.format_name]
        return getattr(import_module(format.module), getattr(format, which))

    def _options(self, languages: Sequence[str] | None) -> dict[str, Any]:
        options = dict(self.options)
        if languages is not None and FORMATS[self.format_name].takes_languages:
            options.setdefault("languages", languages)
        return options


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
        raise SourceError(
            f"cannot tell the format of {path} from its name; name one of {', '.join(FORMATS)}"
        )
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
    progress: Callable[[int, int], None] | None = None,
    onto: KnowledgeGraph | None = None,
    beyond_memory: int | None = None,
    n_workers: int = 1,
) -> tuple[KnowledgeGraph, DamageReport]:
    """Read `sources` into one graph, and save it to `out` when named; all or nothing.

    `languages` are preferred in that order, and alone read from formats that tell languages apart;
    None reads all and prefers English. `force` replaces a graph at `out` and a file at
    `quarantine`. `budget` is what each file may cost (default: that of the environment). `progress`
    is told how many bytes of the files have been read, and of how many. What `onto` holds is in the
    graph, too, as if its sources were read again. With `beyond_memory` the same graph is sorted by
    DuckDB in so many bytes and on the disk beside `out` (`kg_loaders.large`). `n_workers` read
    N-Triples, N-Quads and TSV, sort, hash and write, to the same bytes; the report notes what one
    read alone.

    Raises `DamageError`, `SourceError` (as `BudgetError`), `StoreError`, `WriteError`,
    `MissingPackageError`.
    """
    named = [s if isinstance(s, Source) else Source(Path(s)) for s in sources]
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
        for place, source in enumerate(named):
            report.progress = _telling(progress, inputs, place)
            units.append(_read_source(source, columns, report, languages, workers))
        report.units = " and ".join(dict.fromkeys(units)) or "lines"
        fields = columns.fields(
            languages=_preferred(languages, onto),
            sources=[*(onto.manifest.sources if onto else ()), *(each.name for each in named)],
            licence=licence or (onto.manifest.licence if onto else ""),
        )
        graph = KnowledgeGraph(**fields)
        _count(report, columns.n_records - n_before, graph, onto)
        _note_load(graph, report, onto)
        if out is not None:
            graph.save(out, force=force, n_threads=n_workers)
    report.quarantine = aside
    return (graph if out is None else KnowledgeGraph.open(out, n_threads=n_workers)), report


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
    progress: Callable[[int, int], None] | None, files: Sequence[Path], place: int
) -> Progress | None:
    """What the reader of `files[place]` tells its place to."""
    if progress is None:
        return None
    sizes = [file.stat().st_size if file.is_file() else 0 for file in files]
    done, n_bytes = sum(sizes[:place]), sum(sizes)
    return lambda n: progress(done + n, n_bytes)


def _read_source(
    source: Source,
    columns: Columns | SpilledColumns,
    report: DamageReport,
    languages: Sequence[str] | None,
    workers: Workers,
) -> str:
    report.units = "lines"
    columns.add(source.read_in_blocks(report, languages, workers))
    return report.units


def _preferred(languages: Sequence[str] | None, onto: KnowledgeGraph | None) -> Sequence[str]:
    if languages is not None:
        return languages
    return DEFAULT_LANGUAGES if onto is None else onto.manifest.preferred or onto.manifest.languages


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


def _count(
    report: DamageReport, n_records: int, graph: KnowledgeGraph, onto: KnowledgeGraph | None
) -> None:
    """Count what the graph holds beyond `onto`."""
    report.n_triples = graph.n_triples - (onto.n_triples if onto else 0)
    report.n_texts = _n_texts(graph) - (_n_texts(onto) if onto else 0)
    report.n_duplicates = n_records - report.n_triples - report.n_texts
    report.check()
    if not n_records:
        first = f"; the first line rejected: {report.rejections[0]}" if report.rejections else ""
        raise SourceError(f"no triple and no text was found: {report}{first}")


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
