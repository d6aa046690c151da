"""The folder of an index: what it refuses although it was sealed, and what a process hands on."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from entity_linking.errors import LinkIndexError
from entity_linking.names import NameIndex
from kg_loaders import Text, TextKind, graph_from_records
from kg_loaders.disk import seals
from tests.flips import forge


def built(**names: str) -> NameIndex:
    records = [Text(entity, TextKind.LABEL, name) for entity, name in names.items()]
    return NameIndex.build(graph_from_records(records))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    built(Q1="Paris", Q2="New York").save(tmp_path / "names")
    return tmp_path / "names"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parts.0.n_names": 99}, r"has shape \(2,\), not \(99,\)"),
        ({"parts.0.n_entities": 1}, r"entities has shape \(2,\), not \(1,\)"),
    ],
)
def test_a_manifest_that_counts_otherwise_is_refused(
    folder: Path, changes: dict[str, object], message: str
) -> None:
    forge(folder, changes)
    with pytest.raises(LinkIndexError, match=message):
        NameIndex.open(folder)


@pytest.mark.parametrize("name", ["names.arrow", "keys.marisa", "word_names.npy"])
def test_a_file_that_the_seal_does_not_cover_is_refused(folder: Path, name: str) -> None:
    path = folder / "manifest.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    del values["files"][f"{values['parts'][0]['folder']}/{name}"]
    values["seal"] = seals.seal_of(values)
    path.write_bytes(seals.rendered(values))
    with pytest.raises(LinkIndexError, match=rf"does not list the files .*{name}"):
        NameIndex.open(folder)


def test_verify_reads_every_file_of_an_index_that_is_remembered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    real: Callable[[Path], str] = seals.sha256_of
    monkeypatch.setattr(seals, "sha256_of", lambda path: read.append(path) or real(path))
    monkeypatch.setattr(seals, "_is_settled", lambda stats, started: True)
    NameIndex.open(folder)
    read.clear()
    NameIndex.open(folder)
    assert read == []
    NameIndex.open(folder, verify=True)
    assert sorted(read) == sorted(folder.glob("*/*"))


def test_an_index_travels_as_its_folder_and_only_if_that_is_the_same(folder: Path) -> None:
    index = NameIndex.open(folder)
    packed = pickle.dumps(index)
    assert b"New York" not in packed
    assert [e.name for e in pickle.loads(packed).find("new york")] == ["New York"]
    built(Q1="Oslo").save(folder, force=True)
    with pytest.raises(LinkIndexError, match="not the index that was handed on"):
        pickle.loads(packed)


def test_another_folder_takes_an_index_whole(folder: Path, tmp_path: Path) -> None:
    """Also where it holds an earlier state of the same names: it is another index."""
    index = NameIndex.open(folder)
    other = index.save(tmp_path / "other")
    more = index.add(graph_from_records([Text("Q3", TextKind.LABEL, "Oslo")]))
    with pytest.raises(LinkIndexError, match="holds another index"):
        more.save(tmp_path / "other")
    assert NameIndex.open(tmp_path / "other").n_names == other.n_names == 2
    assert more.save(tmp_path / "other", force=True).n_names == 3
    assert more.save(folder).folder == folder
    assert NameIndex.open(folder).n_names == 3


def test_the_folder_of_a_segment_is_named_by_what_it_holds(folder: Path, tmp_path: Path) -> None:
    """Wherever the index was before."""
    again = NameIndex.open(folder).save(tmp_path / "other")
    assert again.manifest.parts == NameIndex.open(folder).manifest.parts
    other = NameIndex.open(folder).save(folder, force=True)
    assert other.manifest.parts == again.manifest.parts
