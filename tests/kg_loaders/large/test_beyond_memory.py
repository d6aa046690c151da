"""A build through DuckDB gives the folder of a build in memory, byte for byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from kept.apps.cli import app
from kg_loaders import KnowledgeGraph, Source, SourceError, Text, TextKind, Triple, load
from kg_loaders.assembly import Columns
from kg_loaders.build import graph_from_records
from kg_loaders.disk.seals import files_below
from kg_loaders.errors import MissingPackageError
from kg_loaders.reading.blocks import TripleBlock
from kg_loaders.stored_blocks import blocks_of

duckdb = pytest.importorskip("duckdb", reason="the extra duckdb is not installed")
from kg_loaders.large.spilled import LEAST_BYTES, SpilledColumns  # noqa: E402

MEMORY = 256 << 20
NAMES = st.one_of(
    st.sampled_from(["Q1", "Q2", "Q10", "a", "é", "\x00", "a\x00b", "\ufb01", "\U0001f600", "Z"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3),
)
RELATIONS = st.sampled_from(["P1", "P2", "P10"])
TEXTS = st.builds(
    Text, NAMES, st.sampled_from(list(TextKind)), NAMES, st.sampled_from(["en", "", "de", "zh"]),
    st.integers(0, 3), st.booleans(),
)  # fmt: skip
RECORDS = st.lists(st.one_of(st.builds(Triple, NAMES, RELATIONS, NAMES), TEXTS), max_size=12)


def same_bytes(one: Path, other: Path) -> None:
    assert files_below(one) == files_below(other)
    for name in files_below(one):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(RECORDS, RECORDS, st.sampled_from([(), ("en",), ("zh", "en")]))
def test_any_records(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[Triple | Text],
    further: list[Triple | Text],
    languages: tuple[str, ...],
) -> None:
    """One by one, and as the blocks of a graph."""
    folder = tmp_path_factory.mktemp("beyond")
    blocks = list(blocks_of(graph_from_records(further)))
    how = {"languages": languages, "sources": ("x",), "licence": "CC0"}
    in_memory = Columns()
    (folder / "rows").mkdir()
    spilled = SpilledColumns(folder / "rows", MEMORY)
    for columns in (in_memory, spilled):
        columns.add([*records, *blocks])
    assert spilled.n_records == in_memory.n_records
    KnowledgeGraph(**in_memory.fields(**how)).save(folder / "one")  # type: ignore[arg-type]
    KnowledgeGraph(**spilled.fields(**how)).save(folder / "other")  # type: ignore[arg-type]
    same_bytes(folder / "one", folder / "other")


def test_numbers_behind_a_start(tmp_path: Path) -> None:
    import pyarrow as pa

    ends = np.array([[90, 142], [90, 7], [142, 90]], np.int32)
    block = TripleBlock(ends, np.array([0, 0, 1], np.int32), "Q", pa.array(["P17", "P36"]))
    spilled = SpilledColumns(tmp_path, MEMORY)
    spilled.add([block])
    graph = KnowledgeGraph(**spilled.fields(languages=()))
    assert graph.content_hash == graph_from_records([block], languages=()).content_hash


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    draws = np.random.default_rng(0)
    rows = draws.integers(0, 3000, (20_000, 2)).tolist()
    (tmp_path / "t.tsv").write_text("".join(f"Q{h}\tP{h % 7}\tQ{t}\n" for h, t in rows))
    (tmp_path / "n.tsv").write_text("".join(f"Q{i}\tname {i}\n" for i in range(3100)))
    return [str(tmp_path / "t.tsv"), "--labels", str(tmp_path / "n.tsv")]


def test_the_command(files: list[str], tmp_path: Path) -> None:
    for out, more in (("one", []), ("other", ["--beyond-memory", "256M"])):
        outcome = CliRunner().invoke(app, ["kg", "build", *files, "-o", str(tmp_path / out), *more])
        assert outcome.exit_code == 0, outcome.output
    same_bytes(tmp_path / "one", tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n.tsv", "one", "other", "t.tsv"]
    for size, output in (("2X", "is not a number of bytes"), ("1M", "too little to sort in")):
        line = ["kg", "build", *files, "-o", str(tmp_path / "no"), "--beyond-memory", size]
        refused = CliRunner().invoke(app, line)
        assert refused.exit_code == 1
        assert output in refused.output
        assert not (tmp_path / "no").exists()


def test_what_a_dead_writer_left_goes(files: list[str], tmp_path: Path) -> None:
    (tmp_path / ".kg.spilled.999999.part").mkdir()
    (tmp_path / ".kg.spilled.999999.part/rows.duckdb").write_text("half")
    load([Path(files[0])], out=tmp_path / "kg", beyond_memory=MEMORY)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_faults(files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match="name it"):
        load([Path(files[0])], beyond_memory=MEMORY)
    (tmp_path / "rows").mkdir()
    spilled = SpilledColumns(tmp_path / "rows", MEMORY)
    spilled.add([Triple("a", "r", "b")])
    spilled._db.execute("DROP TABLE texts")
    with pytest.raises(SourceError, match="DuckDB gave up"):
        spilled.fields(languages=())
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'kept\[duckdb\]'"):
        load([Source(Path(files[0]))], out=tmp_path / "kg", beyond_memory=MEMORY)
    assert not (tmp_path / "kg").exists()


def test_counts_of_names_are_those_of_a_build_in_memory(tmp_path: Path) -> None:
    """Of equal names the highest count stays, the more frequent name comes first; none is 0."""
    texts = [
        Text("Q1", TextKind.ALIAS, "rare", "en", 1), Text("Q1", TextKind.ALIAS, "often", "en", 70),
        Text("Q1", TextKind.ALIAS, "often", "en", 3), Text("Q1", TextKind.ALIAS, "rare", "en", 2),
        Text("Q1", TextKind.ALIAS, "b", "en"), Text("Q1", TextKind.ALIAS, "a", "en"),
        Text("P1", TextKind.ALIAS, "of", "en", 5, True),
        Text("P1", TextKind.ALIAS, "of", "en", 9, True),
    ]  # fmt: skip
    (tmp_path / "rows").mkdir()
    spilled, in_memory = SpilledColumns(tmp_path / "rows", MEMORY), Columns()
    for columns in (spilled, in_memory):
        columns.add(texts)
    assert spilled.n_records == len(texts)
    graph = KnowledgeGraph(**spilled.fields(languages=["en"]))
    expected = KnowledgeGraph(**in_memory.fields(languages=["en"]))
    assert graph.content_hash == expected.content_hash
    assert graph.aliases(0) == expected.aliases(0)
    assert list(graph.aliases(0)) == [("often", 70), ("rare", 2), ("a", 0), ("b", 0)]
    assert np.asarray(graph.relation_texts.counts).tolist() == [9]


NAMES_OF = {
    "Q1": ["City of Light", "City of Light", "Paris", "Lutetia"],
    "Q2": ["Lyon", "LYON", "Lyo\u0301n", "Ly\u00f3n"],
    "Q3": ["\u00e9", "e\u0301", "\ufb01", "fi", "\U0001f600", "\uffff", " z", "z"],
    "Q4": ["only an alias"],
    "P1": ["a name of a relation, as an entity"],
}
ALIASES = "".join(f"{node}\t{name}\n" for node, names in NAMES_OF.items() for name in names)
COUNTED = (
    "Q1\tCity of Light\t3\nQ1\tLutetia\t70\nQ1\tLutetia\t9\nQ1\tCity of Light\t0\nQ2\tLyon\t1\n"
)
NAMES_BY_LANGUAGE = (
    '{"id": "Q1", "label": "Paris", "language": "fr", "aliases": ["Paname", ["Lutece", 4]]}\n'
    '{"id": "Q1", "label": "Parigi", "language": "it", "aliases": ["Paname", "Lutezia"]}\n'
    '{"id": "Q1", "label": "Paris", "language": "en_US", "aliases": ["Lutetia"]}\n'
)


@pytest.mark.parametrize("languages", [None, ["it", "fr"], ["en"]])
@pytest.mark.parametrize("n_workers", [1, 2])
def test_aliases_are_those_of_a_build_in_memory(
    tmp_path: Path, languages: list[str] | None, n_workers: int
) -> None:
    """From files: with counts, in languages, by readers of lines and of blocks; in their order."""
    for name, text in (
        ("t.tsv", "Q1\tP1\tQ2\nQ2\tP1\tQ3\n"), ("a.tsv", ALIASES), ("c.tsv", COUNTED),
        ("n.jsonl", NAMES_BY_LANGUAGE),
        ("e.obo", '[Term]\nid: Q1\nname: Paris\nsynonym: "Lutetia" EXACT []\nis_a: Q3\n'),
    ):  # fmt: skip
        (tmp_path / name).write_text(text, encoding="utf-8")
    sources = [
        Source(tmp_path / "t.tsv", "tsv"),
        Source(tmp_path / "a.tsv", "texts", {"columns": ("alias",)}),
        Source(tmp_path / "c.tsv", "texts", {"columns": ("alias", "count"), "language": "en"}),
        Source(tmp_path / "n.jsonl"), Source(tmp_path / "e.obo"),
    ]  # fmt: skip
    how = {"languages": languages, "n_workers": n_workers}
    memory, one = load(sources, out=tmp_path / "one", **how)  # type: ignore[arg-type]
    disk, other = load(
        sources,
        out=tmp_path / "other",
        beyond_memory=MEMORY,
        **how,  # type: ignore[arg-type]
    )
    assert one.counts() == other.counts()
    for entity in range(memory.n_entities):
        assert disk.aliases(entity) == memory.aliases(entity), memory.entities.name(entity)
    same_bytes(tmp_path / "one", tmp_path / "other")
    assert ("Lutetia", 70) in memory.aliases(memory.entities.id("Q1"))
    assert len(memory.aliases(memory.entities.id("Q3"))) == 8


PEAK = """
import re, sys, threading, time
from kg_loaders import load
import duckdb

def held():
    return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1])

def watch():
    while True:
        peaks.append(held())
        time.sleep(0.002)

peaks = [held()]
threading.Thread(target=watch, daemon=True).start()
load([sys.argv[1]], out=sys.argv[2], beyond_memory=int(sys.argv[3]))
print(max(peaks) << 10)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_whole_process_keeps_the_limit(tmp_path: Path) -> None:
    """Rows of three times the limit: of a process of its own, memory that no file backs."""
    draws = np.random.default_rng(0)
    ends = draws.integers(0, 10**9, (1_000_000, 2))
    with (tmp_path / "t.tsv").open("w") as file:
        file.writelines(f"entity-{h}\tP{h % 7}\tentity-{t}\n" for h, t in ends.tolist())
    command = [sys.executable, "-c", PEAK, tmp_path / "t.tsv", tmp_path / "kg", str(LEAST_BYTES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < LEAST_BYTES
    assert KnowledgeGraph.open(tmp_path / "kg").n_triples == 1_000_000
