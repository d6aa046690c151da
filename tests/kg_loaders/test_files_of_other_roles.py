"""Files in the place of others: triples as labels, names as triples, a folder as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kg_loaders import Source, load
from kg_loaders.budget import ReaderBudget
from kg_loaders.errors import DamageError, SourceError
from kg_loaders.reading.unpacking import unpacked

TRIPLES = "Brada Okoral\tworks as\twelder\nKelsel Tessan\tlives in\tTanwick\n"
NAMES = "Brada Okoral\tB. Okoral\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "triples.tsv").write_text(TRIPLES)
    (tmp_path / "names.tsv").write_text(NAMES)
    return tmp_path


def texts(path: Path, *columns: str) -> Source:
    return Source(path, "texts", {"columns": columns})


def test_names_in_place_of_triples_are_said_to_be_names(folder: Path) -> None:
    with pytest.raises(DamageError, match=r"2 fields instead of 3; .* is given with --labels"):
        load([folder / "names.tsv"])


def test_triples_in_place_of_aliases_are_said_to_be_triples(folder: Path) -> None:
    sources = [folder / "triples.tsv", texts(folder / "triples.tsv", "alias", "count")]
    with pytest.raises(DamageError, match="a file of triples is given without --aliases"):
        load(sources)


def test_triples_in_place_of_labels_are_noted(folder: Path) -> None:
    triples = folder / "triples.tsv"
    for file, n in ((triples, 1), (folder / "names.tsv", 0)):
        _, report = load([triples, texts(file, "label", "description")])
        notes = [note for note in report.notes if "given without --labels" in note]
        assert len(notes) == n


def test_a_folder_in_place_of_a_file_is_called_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is a folder; give a file"):
        list(unpacked(tmp_path, ReaderBudget()))
