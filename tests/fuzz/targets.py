"""What is fuzzed: every reader of files, and every opener of folders.

A target is a set of small files and a function that reads them; one of the files is spoilt. It may
return or raise an error of kept's own trees (`ALLOWED`); anything else is a finding.
"""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import zstandard

from entity_linking.errors import LinkingError
from kept.errors import KeptError
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import KgError
from tests.fuzz.hostile import CASES

ALLOWED = (KgError, LinkingError, KeptError)
CORPUS = Path(__file__).parent / "corpus"
MOST_RECORDS = 200_000

Files = Mapping[str, bytes]
Run = Callable[[Path, Random], None]


@dataclass(frozen=True)
class Target:
    """`seeds()` gives sets of files, valid or hostile; `run` reads a folder of them.

    `spoils`: one of the files is spoilt first; else `run` itself changes what it reads.
    """

    seeds: Callable[[], list[Files]]
    run: Run
    spoils: bool = True


def _spend(items: Iterable[Any]) -> None:
    for number, _ in enumerate(items):
        if number == MOST_RECORDS:
            return


def _report(random: Random) -> DamageReport:
    return DamageReport(random.choice((DamagePolicy.STOP, DamagePolicy.SKIP)))


def kept_corpus(name: str) -> list[Files]:
    """The committed sets of a target: files of a folder, or a folder for a set of several."""
    corpus: list[Files] = []
    for path in sorted((CORPUS / name).iterdir()):
        if path.is_dir():
            corpus.append({file.name: file.read_bytes() for file in sorted(path.iterdir())})
        else:
            corpus.append({path.name: path.read_bytes()})
    return corpus


# ---- graphs --------------------------------------------------------------------------------------
def _graph_seeds(format: str, suffixes: tuple[str, ...]) -> Callable[[], list[Files]]:
    def seeds() -> list[Files]:
        corpus = kept_corpus(format)
        hostile = [
            {case.file: case.bytes_of(case.small)}
            for case in CASES.values()
            if any(case.file.split(".")[1] == suffix for suffix in suffixes)
        ]
        return corpus + hostile

    return seeds


def _build(format: str) -> Run:
    """Read into a graph, whose counts add up."""

    def run(folder: Path, random: Random) -> None:
        from kg_loaders import Source, load

        files = sorted(path for path in folder.iterdir())
        path = next((file for file in files if file.name == "train2id.txt"), files[0])
        is_folder = format in ("wordnet", "graphrag") or (len(files) > 1 and format == "umls")
        path = folder if is_folder else path
        options: dict[str, Any] = {}
        if format == "texts":
            options["columns"] = ("label", "count", "alias", "count", "description", "type")
        if format == "wikidata" and random.random() < 0.7:
            options |= random.choice(
                (
                    {"ranks": "all", "qualifiers": True},
                    {"instances_of": ["Q515"], "inner": random.random() < 0.5},
                    {"sitelinks": ["enwiki"], "inner": True, "types": "both"},
                )
            )
        if format == "rdf" and random.random() < 0.3:
            options["relation_prefixes"] = ["a:"]
        policy = random.choice((DamagePolicy.STOP, DamagePolicy.SKIP))
        languages = random.choice((None, ["en"]))
        graph, _ = load([Source(path, format, options)], policy=policy, languages=languages)
        assert graph.n_triples >= 0

    return run


NAMES_OF_ANY = ("x.json", "x.owl", "x.xml", "x.csv", "x.tsv", "x.txt", "x", "x.ttl")


def _any_seeds() -> list[Files]:
    """Every graph file of the corpus under names that say little or something else."""
    folders = ("any", "csv", "tsv", "json", "jsonl", "graphml", "neo4j", "rdf", "wikidata", "obo")
    return [
        {name: data}
        for folder in folders
        for files in kept_corpus(folder)
        for data in [*files.values()][:1]
        for name in NAMES_OF_ANY
    ]


def _any(folder: Path, random: Random) -> None:
    """Read a file of which nothing is said, or with options of tables."""
    from kg_loaders import load

    options: dict[str, str] = {}
    if random.random() < 0.5:
        options = random.choice(
            (
                {"header": "yes"}, {"header": "no"}, {"order": "htr"}, {"order": "hr-t"},
                {"order": "source,edge,target"}, {"encoding": "latin-1"}, {"encoding": "utf-16"},
            )
        )  # fmt: skip
    policy = random.choice((DamagePolicy.STOP, DamagePolicy.SKIP))
    load([next(folder.iterdir())], policy=policy, **options)  # type: ignore[arg-type]


def _lexicon(folder: Path, random: Random) -> None:
    from kg_loaders.formats.wordnet_lexicon import Lexicon

    lexicon = Lexicon.open(folder)
    for word in ("dogs", "dog", "s", ""):
        assert all(lexicon.synsets(base, "n") for base in lexicon.morphy(word, "n"))


def _packed_seeds() -> list[Files]:
    text = b"a\tr\tb\nb\tr\tc\n"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("x.tsv", text)
    archives = {
        "x.tsv.gz": gzip.compress(text), "x.tsv.zst": zstandard.compress(text),
        "x.tsv.xz": lzma.compress(text),
        "x.zip": archive.getvalue(),
    }  # fmt: skip
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED):
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w", method) as packed:
            packed.writestr("x.tsv", text)
        archives[f"x{method}.zip"] = sink.getvalue()
    return [
        *({name: data} for name, data in archives.items()),
        *({c.file: c.bytes_of(c.small)} for c in CASES.values() if c.file == "x.zip"),
    ]


def _packed(folder: Path, random: Random) -> None:
    from kg_loaders.reading.lines import read_lines

    path = next(folder.iterdir())
    if path.suffix == ".zip":
        path = random.choice((path, path / "x.tsv", path.with_name(f"{path.name}::x.tsv")))
    _spend(read_lines(path, _report(random)))


# ---- texts, tasks, probes ------------------------------------------------------------------------
def _link_inputs(format: str) -> Run:
    def run(folder: Path, random: Random) -> None:
        from kept.apps.cli.link.inputs import read_items

        _spend(read_items(next(folder.iterdir()), format, _report(random)))

    return run


def _task(format: str) -> Run:
    def run(folder: Path, random: Random) -> None:
        from kept.tasks.datasets.formats import FORMATS

        _spend(FORMATS[format].read(next(folder.iterdir()), _report(random)))

    return run


def _annotations(folder: Path, random: Random) -> None:
    from entity_linking.annotations import read_jsonl

    _spend(read_jsonl(next(folder.iterdir()), _report(random)))


def _conllu(folder: Path, random: Random) -> None:
    from kept.tasks.datasets.conllu import read_conllu

    _spend(read_conllu(next(folder.iterdir()), _report(random)))


def _senses(folder: Path, random: Random) -> None:
    from entity_linking.senses.corpus import read_senses

    keys = folder / "x.gold.key.txt"
    read_senses(folder / "x.data.xml", keys if random.random() < 0.5 else None)


def _facts(folder: Path, random: Random) -> None:
    from kept.lab.probing.items.facts import read_facts

    _spend(read_facts(next(folder.iterdir()), _report(random)))


def _templates(folder: Path, random: Random) -> None:
    from kept.lab.probing.items.templates import read_templates

    read_templates(next(folder.iterdir()), _report(random))


def _squad(folder: Path, random: Random) -> None:
    from kept.lab.probing.items.masked_sentences import read_squad

    _spend(read_squad(next(folder.iterdir()), _report(random)))


def _archive_seeds() -> list[Files]:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as archive:
        line = b'{"pattern": "[X] was born in [Y] .", "sub_label": "a", "obj_label": "b"}\n'
        member = tarfile.TarInfo("p/P19.jsonl")
        member.size = len(line)
        archive.addfile(member, io.BytesIO(line))
    return [{"x.tar.gz": sink.getvalue()}, {"x.tar": gzip.decompress(sink.getvalue())}]


def _archive(folder: Path, random: Random) -> None:
    from kept.lab.probing.items.sources import lines

    _spend(lines(next(folder.iterdir()), _report(random)))


def _vocabulary(folder: Path, random: Random) -> None:
    from kept.convert.vocabularies import read_vocabulary

    read_vocabulary(next(folder.iterdir()))


def of_corpus(name: str, run: Run) -> Target:
    return Target(lambda: kept_corpus(name), run)


GRAPH_SUFFIXES = {
    "tsv": ("tsv",), "texts": (), "jsonl": ("jsonl",), "openke": (), "wikidata": ("json",),
    "wordnet": (), "spo": (), "neo4j": (), "wikidata5m": (), "csv": (), "parquet": (),
    "conceptnet": (), "obo": (), "umls": (), "wnlmf": (),
    "graphml": (), "llamaindex": (), "neo4j-graphrag": (), "json": (), "graphrag": (),
    "rdf": ("nt", "nq", "ttl", "trig", "rdf", "owl", "jsonld", "n3", "trix"),
}  # fmt: skip
LINK_FORMATS = (
    "text", "jsonl", "json", "table", "tagme", "elevant", "fewrel", "wiki80", "trex",
)  # fmt: skip
TASK_FORMATS = (
    "atlas", "semeval", "tacred", "docred", "ultrafine", "tsv", "cola", "wic", "conll", "stsb",
    "scores", "squad", "squad2", "copa", "lettered",
    "commonsenseqa",
)  # fmt: skip

READERS: dict[str, Target] = {
    **{
        f"graph.{name}": Target(_graph_seeds(name, suffixes), _build(name))
        for name, suffixes in GRAPH_SUFFIXES.items()
    },
    "graph.any": Target(_any_seeds, _any),
    "graph.lexicon": of_corpus("wordnet", _lexicon),
    "lines.packed": Target(_packed_seeds, _packed),
    "link.annotations": of_corpus("link.jsonl", _annotations),
    **{f"link.{name}": of_corpus(f"link.{name}", _link_inputs(name)) for name in LINK_FORMATS},
    **{f"task.{name}": of_corpus(f"task.{name}", _task(name)) for name in TASK_FORMATS},
    "task.conllu": of_corpus("task.conllu", _conllu),
    "senses": of_corpus("senses", _senses),
    "probe.facts": of_corpus("probe.facts", _facts),
    "probe.templates": of_corpus("probe.templates", _templates),
    "probe.squad": of_corpus("probe.squad", _squad),
    "probe.archive": Target(_archive_seeds, _archive),
    "vocabulary": of_corpus("vocabulary", _vocabulary),
}
