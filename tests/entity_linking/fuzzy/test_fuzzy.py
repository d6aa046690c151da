from __future__ import annotations

import csv
import doctest
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking import DictionaryLinker
from entity_linking.errors import LinkIndexError, LinkingError
from entity_linking.fuzzy import index as fuzzy
from entity_linking.fuzzy import ngrams
from entity_linking.fuzzy.index import FuzzyCandidates, FuzzyIndex, names_of
from entity_linking.fuzzy.ngrams import Name, form_of
from entity_linking.fuzzy.of_graph import SpeltAlike
from entity_linking.mentions import Link, LinkedText, Mention
from entity_linking.names.priors import LABELS_FIRST
from kg_loaders import KnowledgeGraph, Text, TextKind, graph_from_records
from kg_loaders.errors import ExistsError, WriteError
from kg_loaders.records import DEPRECATED
from tests.flips import forge

NAMES = [
    Name("Q36153", "Beyoncé", 10),
    Name("Q90", "Paris", 10),
    Name("Q830149", "Paris", 10),
    Name("Q60", "New York City", 10),
    Name("Q60", "New York"),
    Name("Q7315", "Pyotr Tchaikovsky", 10),
    Name("Q8684", "서울특별시", 10),
    Name("Q85", "القاهرة", 10),
]
SURFACES = st.text(min_size=1, max_size=12).filter(form_of)


def _text(*words: str) -> LinkedText:
    links, start = [], 0
    for word in words:
        links.append(Link(Mention(start, start + len(word)), (), None, 1.0))
        start += len(word) + 1
    return LinkedText(" ".join(words), tuple(links))


@pytest.fixture(scope="module")
def index() -> FuzzyIndex:
    return FuzzyIndex.build(NAMES)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("beyonse", "Beyoncé"),
        ("PARSI", "Paris"),
        ("NewYork", "New York"),
        ("Piotr Chaikovsky", "Pyotr Tchaikovsky"),
        ("서울특별 시", "서울특별시"),
        ("القاهره", "القاهرة"),
        ("Beyonce\u0301", "Beyoncé"),
        ("Be\u00adyoncé", "Beyoncé"),
    ],
)
def test_what_a_dictionary_misses(index: FuzzyIndex, written: str, expected: str) -> None:
    (actual,) = index.search([written])
    assert actual[0].surface == expected


@settings(deadline=None)
@given(st.lists(SURFACES, min_size=1, max_size=8))
def test_a_name_finds_itself_first(surfaces: list[str]) -> None:
    index = FuzzyIndex.build(Name(f"Q{i}", surface) for i, surface in enumerate(surfaces))
    for i, (surface, each) in enumerate(zip(surfaces, index.search(surfaces), strict=True)):
        assert form_of(each[0].surface) == form_of(surface)
        assert each[0].similarity == 1.0
        assert f"Q{i}" in dict(each[0].bearers)


@settings(deadline=None)
@given(st.lists(SURFACES, max_size=8), st.lists(SURFACES, max_size=8), st.lists(SURFACES))
def test_adding_is_building_at_once(old: list[str], new: list[str], queries: list[str]) -> None:
    before = [Name(f"Q{i}", surface, i + 1) for i, surface in enumerate(old)]
    after = [Name(f"Q{i}", surface, 5) for i, surface in enumerate(new)]
    grown = FuzzyIndex.build(before).add(after)
    built = FuzzyIndex.build([*before, *after])
    queries = [*old, *new, *queries]
    assert grown.search(queries, min_similarity=0.3) == built.search(queries, min_similarity=0.3)


def test_a_batch_is_its_queries(index: FuzzyIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = ["beyonse", " ", "parsi", "Beyonse", "zzz", "", "new yorc"]
    alone = [index.search([surface])[0] for surface in queries]
    assert index.search(queries) == alone
    assert alone[1] == alone[4] == alone[5] == []
    monkeypatch.setattr(fuzzy, "FORMS_PER_STEP", 2)
    assert index.search(queries) == alone


def test_lone_surrogates_may_be_asked_for(index: FuzzyIndex) -> None:
    assert index.search(["Par\ud800is"])[0][0].surface == "Paris"


def test_segments_are_cut_by_size(monkeypatch: pytest.MonkeyPatch, index: FuzzyIndex) -> None:
    monkeypatch.setattr(fuzzy, "NAMES_PER_SEGMENT", 3)
    cut = FuzzyIndex.build(NAMES)
    assert repr(cut) == "FuzzyIndex(7 names in 3 segments)"
    queries = ["parsi", "new york", "beyonse"]
    assert cut.search(queries) == index.search(queries)


# ---- candidates ----------------------------------------------------------------------------------
def test_candidates_say_how_alike_they_are(index: FuzzyIndex) -> None:
    source = FuzzyCandidates(index)
    actual = source.candidates([_text("Beyonsé", "Parris"), _text(), _text("qqq")])
    (beyonce,), (paris, texas) = actual[0]
    assert (beyonce.entity, beyonce.reason) == ("Q36153", "like 'Beyoncé' .86")
    assert beyonce.prior == pytest.approx(6 / 7)
    assert (paris.entity, texas.entity) == ("Q90", "Q830149")
    assert paris.prior == texas.prior == paris.score == pytest.approx(5 / 6 / 2)
    assert actual[1:] == [[], [()]]


def test_priors_fall_with_the_likeness() -> None:
    index = FuzzyIndex.build([Name("A", "abcdefgh"), Name("B", "abcdefgx", 3), Name("A", "abcdxx")])
    (((first, second),),) = FuzzyCandidates(index).candidates([_text("abcdefgh")])
    share = (7 / 8) ** 8
    assert (first.entity, second.entity) == ("A", "B")
    assert first.prior == pytest.approx(1 / (1 + share))
    assert second.prior == pytest.approx(share / (1 + share))
    assert second.reason == "like 'abcdefgx' .88"
    (((only,),),) = FuzzyCandidates(index, max_names=1).candidates([_text("abcdefgh")])
    assert (only.entity, only.prior, only.reason) == ("A", 1.0, "like 'abcdefgh' 1.00")
    source = FuzzyCandidates(index, max_candidates=1, min_similarity=0.5)
    assert len(source.candidates([_text("abcdefgh")])[0][0]) == 1


def test_a_name_written_right_has_the_prior_of_the_dictionary(small_graph: KnowledgeGraph) -> None:
    source = FuzzyCandidates(FuzzyIndex.of_graph(small_graph), max_names=1)
    linker = DictionaryLinker(small_graph, case="insensitive", exact=True, formula=LABELS_FIRST)
    (linked,) = linker.link(["Paris and the City of Light in France"])
    (actual,) = source.candidates([linked])
    assert len(actual) == 3
    for link, candidates in zip(linked.links, actual, strict=True):
        assert [c.entity for c in candidates] == [c.entity for c in link.candidates]
        assert [c.prior for c in candidates] == pytest.approx([c.prior for c in link.candidates])


def test_names_by_language() -> None:
    graph = graph_from_records(
        [
            Text("Q1", TextKind.LABEL, "Universe", "en"),
            Text("Q1", TextKind.LABEL, "Weltall", "de"),
            Text("Q1", TextKind.ALIAS, "Kosmos", "", 7),
            Text("Q1", TextKind.DESCRIPTION, "everything", "en"),
        ]
    )
    everything = {("Universe", 10), ("Weltall", 10), ("Kosmos", 8)}
    assert {(surface, weight) for _, surface, weight in names_of(graph)} == everything
    german = {(surface, weight) for _, surface, weight in names_of(graph, ["de"])}
    assert german == {("Weltall", 10), ("Kosmos", 8)}


@pytest.mark.parametrize(
    "wrong", [{"max_names": 0}, {"max_candidates": 0}, {"min_similarity": 0.0}]
)
def test_wrong_settings_are_told(index: FuzzyIndex, wrong: dict[str, int]) -> None:
    with pytest.raises(LinkingError, match=next(iter(wrong))):
        FuzzyCandidates(index, **wrong)  # type: ignore[arg-type]


def test_wrong_searches_are_told(index: FuzzyIndex) -> None:
    with pytest.raises(LinkingError, match="k is 0"):
        index.search(["a"], k=0)
    with pytest.raises(LinkingError, match="min_similarity 2"):
        index.search(["a"], min_similarity=2)
    with pytest.raises(LinkingError, match="max_postings is 0"):
        FuzzyIndex([], max_postings=0)


# ---- disk ----------------------------------------------------------------------------------------
QUERIES = ["beyonse", "parsi", "new yrok", "bon", "مصر"]


def test_saved_added_and_opened(tmp_path: Path, index: FuzzyIndex) -> None:
    folder = tmp_path / "names"
    index.save(folder)
    opened = FuzzyIndex.open(folder, verify=True)
    assert opened.search(QUERIES) == index.search(QUERIES)
    more = [Name("Q586", "Bonn", 10), Name("Q90", "Parsi", 10)]
    first = _segment(folder)
    written = [file.stat().st_mtime_ns for file in sorted(first.iterdir())]
    (folder / "segment-0001").mkdir()  # of a writer that died
    grown = FuzzyIndex.add_to(folder, more, graph_hash="1a")
    assert grown.search(QUERIES) == index.add(more).search(QUERIES) != index.search(QUERIES)
    assert opened.search(QUERIES) == index.search(QUERIES)
    assert grown.graph_hashes == ("", "1a")
    now = [file.stat().st_mtime_ns for file in sorted(first.iterdir())]
    assert now == written
    grown.save(folder, force=True)
    assert FuzzyIndex.open(folder, verify=True).search(QUERIES) == grown.search(QUERIES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["names"]
    parts = json.loads((folder / "manifest.json").read_text())["parts"]
    names = sorted(["manifest.json", *(part["folder"] for part in parts)])
    assert [path.name for path in sorted(folder.iterdir())] == names


def test_the_same_names_make_the_same_files(tmp_path: Path) -> None:
    code = (
        "import sys; from entity_linking.fuzzy.index import FuzzyIndex, Name\n"
        "names = [Name(f'Q{i % 7}', f'name {i % 11}') for i in range(99)]\n"
        "FuzzyIndex.build(names).save(sys.argv[1])"
    )
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, str(tmp_path / seed)]
        subprocess.run(command, check=True, env=environment)
    first, second = ((tmp_path / seed / "manifest.json").read_bytes() for seed in ("1", "2"))
    assert first == second


def test_an_empty_index_can_be_saved(tmp_path: Path) -> None:
    FuzzyIndex.build([]).save(tmp_path / "none")
    FuzzyIndex.build([Name("Q1", " ")]).save(tmp_path / "blank")
    for name in ("none", "blank"):
        assert FuzzyIndex.open(tmp_path / name).search(["paris"]) == [[]]


def test_what_is_there_is_not_overwritten(tmp_path: Path, index: FuzzyIndex) -> None:
    index.save(tmp_path / "names")
    with pytest.raises(ExistsError, match="exists"):
        index.save(tmp_path / "names")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("Dear")
    with pytest.raises(ExistsError, match="no index of names"):
        index.save(tmp_path / "letters", force=True)
    with pytest.raises(LinkIndexError, match="not an index of names"):
        FuzzyIndex.add_to(tmp_path / "letters", NAMES)
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="cannot be written"):
        index.save(tmp_path / "file" / "names")


def _segment(folder: Path) -> Path:
    (part,) = json.loads((folder / "manifest.json").read_text())["parts"]
    result: Path = folder / part["folder"]
    return result


def _cut(folder: Path) -> None:
    file = _segment(folder) / "postings.npy"
    file.write_bytes(file.read_bytes()[:-1])


def _lose(folder: Path) -> None:
    (_segment(folder) / "surfaces.arrow").unlink()


def _tear(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")


def _change(folder: Path) -> None:
    file = _segment(folder) / "weights.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def _garble(folder: Path) -> None:
    file = _segment(folder) / "entities.arrow"
    file.write_bytes(b"x" * file.stat().st_size)
    forge(folder, {})


def _rename(folder: Path) -> None:
    manifest = folder / "manifest.json"
    name = _segment(folder).name
    manifest.write_text(manifest.read_text().replace(f"{name}/", f"../{name}/"))
    forge(folder, {})


def _store(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """A column is changed and the folder sealed anew."""

    def damage(folder: Path) -> None:
        file = _segment(folder) / f"{name}.npy"
        np.save(file, change(np.load(file)))
        forge(folder, {})

    return damage


def _with(row: int, value: int) -> Callable[[Any], Any]:
    def change(column: Any) -> Any:
        column[row] = value
        return column

    return change


DAMAGE = {
    "postings.npy has": _cut,
    "surfaces.arrow is missing": _lose,
    "manifest.json is damaged": _tear,
    "weights.npy was altered": _change,
    "entities.arrow cannot be read": _garble,
    "format version 9": lambda folder: forge(folder, {"format_version": 9}),
    "but 'vectors'": lambda folder: forge(folder, {"kind": "vectors"}),
    "n-grams of": lambda folder: forge(folder, {"gram_sizes": [2, 3, 5]}),
    r"has shape \(7,\), not \(8,\)": lambda folder: forge(folder, {"parts.0.n_names": 8}),
    "does not list": lambda folder: forge(folder, {"parts.0.folder": "../other"}),
    "none inside the folder": _rename,
    "gram_offsets does not begin at 0": _store("gram_offsets", _with(0, 1)),
    "gram_offsets falls": _store("gram_offsets", _with(1, 10**6)),
    "bearers holds": _store("bearers", _with(0, 99)),
    "postings holds -1": _store("postings", _with(0, -1)),
    "sizes holds 0": _store("sizes", _with(0, 0)),
    "grams is not sorted": _store("grams", lambda column: column[::-1]),
    "it holds float64": _store("weights", lambda column: column.astype(float)),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_a_damaged_folder_is_refused(tmp_path: Path, index: FuzzyIndex, message: str) -> None:
    folder = tmp_path / "names"
    index.save(folder)
    FuzzyIndex.open(folder)
    DAMAGE[message](folder)
    with pytest.raises(LinkIndexError, match=message):
        FuzzyIndex.open(folder)


def test_the_manifest_counts(tmp_path: Path, index: FuzzyIndex) -> None:
    index.save(tmp_path / "names")
    record = json.loads((tmp_path / "names" / "manifest.json").read_text())
    (segment,) = record["parts"]
    assert (segment["n_names"], segment["n_entities"], segment["n_bearers"]) == (7, 7, 8)


# ---- real names ----------------------------------------------------------------------------------
def _slip(name: str, generator: np.random.Generator) -> str:
    """One edit: a letter too many, too few, another, or two swapped."""
    position, kind = int(generator.integers(len(name) - 1)), int(generator.integers(4))
    letter = chr(ord("a") + int(generator.integers(26)))
    before, after = name[:position], name[position:]
    return before + (letter + after, after[1:], letter + after[1:], after[1::-1] + after[2:])[kind]


@pytest.mark.data
def test_typos_in_real_names_are_corrected(data_root: Path) -> None:
    names: list[Name] = []
    for kind, weight in (("labels", 10), ("aliases", 1)):
        file = data_root / "wikidata_labels" / f"qid_{kind}.tsv.gz"
        with gzip.open(file, "rt", encoding="utf-8", newline="\n") as stream:
            rows = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
            names += [Name(row[0], row[1], weight) for row in rows][1:]
    generator = np.random.default_rng(0)
    labels = [name for name in names if name.weight == 10 and len(name.surface) >= 6]
    sample = [labels[i] for i in generator.choice(len(labels), 300, replace=False)]
    typos = [_slip(_slip(name.surface, generator), generator) for name in sample]
    actual = FuzzyIndex.build(names).search(typos, k=10)
    n_found = sum(
        any(name.entity == entity for match in matches for entity, _ in match.bearers)
        for name, matches in zip(sample, actual, strict=True)
    )
    assert n_found >= 0.9 * len(sample)


@pytest.mark.parametrize("module", [fuzzy, ngrams])
def test_the_examples_hold(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(("deprecated", "n_candidates"), [(False, 0), (True, 1)])
def test_spelt_alike_takes_names_of_deprecated_terms_on_request(
    deprecated: bool, n_candidates: int
) -> None:
    graph = graph_from_records(
        [
            Text("x:1", TextKind.LABEL, "myocardial infarct", "en"),
            Text("x:1", TextKind.TYPE, DEPRECATED),
            Text("x:2", TextKind.LABEL, "heart", "en"),
        ]
    )
    text = LinkedText("A miocardial infarct.", (Link(Mention(2, 20), (), None, 0.0),))
    (candidates,) = SpeltAlike(graph, deprecated=deprecated).candidates([text])[0]
    assert [each.entity for each in candidates] == ["x:1"] * n_candidates
