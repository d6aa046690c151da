"""KnowBERT's archives: read safely, strict about names, rows of one's own graph."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kept.batches import N_SPECIAL_ROWS, UNKNOWN_ROW
from kept.convert import knowbert as keys
from kept.errors import CheckpointError
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph
from tests.kept.convert.releases import (
    KNOWBERT_NAMES,
    archive,
    knowbert_members,
    knowbert_state,
    pickled,
)


@pytest.fixture(scope="module")
def original() -> dict[str, Tensor]:
    return knowbert_state()


def test_an_archive_becomes_a_model_and_back(original: dict[str, Tensor], tmp_path: Path) -> None:
    path = archive(tmp_path / "model.tar.gz", knowbert_members(original))
    model = keys.convert(path, n_attention_heads=2)
    back = keys.back_to_original(model, KNOWBERT_NAMES)
    assert back.keys() == original.keys()
    assert all(torch.equal(back[name], original[name]) for name in original)
    wiki, wordnet = model.encoder.specs
    assert (wiki.name, wiki.loss, wiki.margin, wiki.layer) == ("wiki", "margin", 0.3, 0)
    assert (wordnet.name, wordnet.loss, wordnet.vectors) == ("wordnet", "softmax", "parts")
    model.save_pretrained(tmp_path / "ours")
    again = KnowledgeForPreTraining.from_pretrained(tmp_path / "ours")
    assert all(torch.equal(v, again.state_dict()[k]) for k, v in model.state_dict().items())
    assert not list(tmp_path.glob("**/weights.th"))


def test_rows_of_ones_own_graph(
    original: dict[str, Tensor], small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    path = archive(tmp_path / "model.tar.gz", knowbert_members(original))
    small_graph.save(tmp_path / "kg")
    model = keys.convert(path, n_attention_heads=2, kg=tmp_path / "kg")
    model.require_graph(small_graph)
    model.encoder.require_graph(small_graph)
    table = model.encoder.linker("wiki").entities.vectors.weight
    theirs = original["wiki_soldered_kg.entity_linker.disambiguator.entity_embeddings.weight"]
    assert len(table) == small_graph.n_entities + N_SPECIAL_ROWS
    expected = {"Q90": 2, "Q64": 3, "Q142": 1}  # by label, by identifier, unknown
    for name, row_of_theirs in expected.items():
        row = small_graph.entities.find(name) + N_SPECIAL_ROWS
        assert torch.equal(table[row], theirs[row_of_theirs]), name
    assert torch.equal(table[UNKNOWN_ROW], theirs[6])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"surprise": torch.zeros(1)}, r"does not know: \['surprise'\]"),
        ({"wiki_soldered_kg.output_layer_norm.bias": None}, r"missing .*recontext.*output_norm\.b"),
        ({"pretrained_bert.bert.extra.weight": torch.zeros(1)}, r"unexpected .*host\.extra"),
        ({"pooler.dense.bias": torch.ones(16)}, r"pooler\.dense\.bias should equal"),
        (
            {
                "wiki_soldered_kg.entity_linker.disambiguator.dot_attention_with_prior."
                "null_embedding": torch.zeros(8)
            },
            r"null_embedding should equal row @@NULL@@",
        ),
        (
            {"wiki_soldered_kg.entity_linker.disambiguator.bert_to_kg_projector.weight": None},
            r"lacks .*bert_to_kg_projector",
        ),
        (
            {
                "wiki_soldered_kg.entity_linker.disambiguator.entity_embeddings.weight":
                torch.zeros(9, 8)
            },
            r"7 entities, its table 9 rows",
        ),
    ],
)  # fmt: skip
def test_strictness(
    original: dict[str, Tensor], change: dict[str, Tensor | None], message: str, tmp_path: Path
) -> None:
    state = {k: v for k, v in (original | change).items() if v is not None}
    path = archive(tmp_path / "model.tar.gz", knowbert_members(state))
    with pytest.raises(CheckpointError, match=message):
        keys.convert(path, n_attention_heads=2)


class Hostile:
    """Unpickled, it would make a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.folder),)


def test_hostile_archives_do_nothing(original: dict[str, Tensor], tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    hostile = knowbert_members(original) | {"weights.th": pickled({"x": Hostile(victim)})}
    with pytest.raises(CheckpointError, match="could run code"):
        keys.convert(archive(tmp_path / "pickle.tar.gz", hostile))
    outside = knowbert_members(original) | {"../escaped.txt": b"x", "/absolute.txt": b"x"}
    keys.convert(archive(tmp_path / "paths.tar.gz", outside), n_attention_heads=2)
    assert not victim.exists()
    assert not list(tmp_path.parent.glob("escaped*"))
    linked = tmp_path / "link.tar.gz"
    with tarfile.open(linked, "w:gz") as file:
        member = tarfile.TarInfo("weights.th")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/hostname"
        file.addfile(member)
    with pytest.raises(CheckpointError, match="lacks"):
        keys.convert(linked)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config.json": b"{"}, "is not AllenNLP's"),
        ({"config.json": b"{}"}, "is not AllenNLP's"),
        ({"config.json": b'{"model": {}}'}, "lacks 'soldered_kgs'"),
        ({"vocabulary/entity_wiki.txt": None}, "no vocabulary of the entities of 'wiki'"),
        ({"vocabulary/entity_wiki.txt": b"a\nb"}, "lacks @@MASK@@"),
        ({"weights.th": None}, "not an archive of AllenNLP"),
    ],
)
def test_faulty_archives_are_named(
    original: dict[str, Tensor], change: dict[str, bytes | None], message: str, tmp_path: Path
) -> None:
    kept = {k: v for k, v in (knowbert_members(original) | change).items() if v is not None}
    with pytest.raises(CheckpointError, match=message):
        keys.convert(archive(tmp_path / "model.tar.gz", kept), n_attention_heads=2)
    (tmp_path / "text.tar.gz").write_text("no archive")
    with pytest.raises(CheckpointError, match="cannot be read as an archive"):
        keys.convert(tmp_path / "text.tar.gz")
    with pytest.raises(CheckpointError, match="cannot be read as an archive"):
        keys.convert(tmp_path / "none.tar.gz")
