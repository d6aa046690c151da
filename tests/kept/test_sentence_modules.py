"""Models of sentence-transformers give their own vectors, and hosts are exported for it."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from kept import hosts
from kept.auto import AutoEncoder
from kept.errors import CheckpointError, ConfigError, HostError
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import ExistsError
from tests.kept.training.tiny_pretraining import write_host

TEXTS = ["the old people", "near", "capital of the people is near and flows through the capital"]
CURRENT = "sentence_transformers.sentence_transformer.modules.pooling."
OLD = {
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
}


def folder_of(path: Path, pooling: dict[str, Any], *more: str, length: int | None = None) -> Path:
    """A host with the files of sentence-transformers beside it."""
    write_host(path)
    kinds = ["Transformer", "Pooling", *more]
    rows = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"{CURRENT}{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (path / "modules.json").write_text(json.dumps(rows))
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    if length is not None:
        (path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": length}))
    return path


def by_hand(folder: Path, text: str, pooling: str, normalize: bool, length: int = 64) -> Any:
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=length)
    with torch.no_grad():
        states = model.eval()(**inputs).last_hidden_state[0]
    chosen = {"mean": states.mean(0), "cls": states[0], "max": states.max(0).values}
    vector = chosen[pooling]
    return vector / vector.norm() if normalize else vector


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_pooling_and_normalisation_are_the_folders(
    pooling: str, is_old: bool, normalize: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config: dict[str, Any] = {"pooling_mode": pooling}
    if is_old:
        config = {name: kind == pooling for kind, name in OLD.items()}
        config["pooling_mode_lasttoken"] = False
    folder = folder_of(tmp_path / "host", config, *(["Normalize"] if normalize else []), length=8)
    encoder = AutoEncoder.from_pretrained(folder)
    vectors = encoder.encode(TEXTS).sentences
    for text, vector in zip(TEXTS, vectors, strict=True):
        torch.testing.assert_close(
            vector, by_hand(folder, text, pooling, normalize, 8), atol=1e-5, rtol=1e-5
        )
    assert "not read" not in caplog.text
    encoder.save_pretrained(tmp_path / "saved")
    again = AutoEncoder.from_pretrained(tmp_path / "saved").encode(TEXTS).sentences
    assert torch.equal(again, vectors)


@pytest.mark.parametrize(
    ("pooling", "more", "named"),
    [
        ({"pooling_mode": "lasttoken"}, [], "Pooling (lasttoken)"),
        ({"pooling_mode": ["mean", "cls"]}, [], "Pooling (mean and cls)"),
        ({OLD["mean"]: True, OLD["max"]: True}, [], "Pooling (mean and max)"),
        ({"pooling_mode_weightedmean_tokens": True}, [], "Pooling (weightedmean_tokens)"),
        ({}, [], "Pooling (without a mode)"),
        ({"pooling_mode": "mean"}, ["Dense"], "Dense"),
        ({"pooling_mode": "mean"}, ["LayerNorm", "Normalize"], "LayerNorm"),
    ],
)
def test_what_is_not_read_is_named(
    pooling: dict[str, Any],
    more: list[str],
    named: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "kept"):
        AutoEncoder.from_pretrained(folder_of(tmp_path / "host", pooling, *more))
    assert f"names {named}, which are not read" in caplog.text


@pytest.mark.parametrize("content", ["[1]", "{", "3", '[{"type": "a.Pooling"}]', '{"a": 1}'])
def test_no_list_of_modules_is_an_error(content: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "host", {"pooling_mode": "mean"})
    (folder / "modules.json").write_text(content)
    with pytest.raises(HostError, match=r"modules\.json"):
        AutoEncoder.from_pretrained(folder)


def test_settings_that_kept_did_not_write_are_refused(tmp_path: Path) -> None:
    AutoEncoder.from_pretrained(write_host(tmp_path / "host")).save_pretrained(tmp_path / "saved")
    from kept.auto.sentence_modules import SentenceModules

    for values in ({"pooling": "sum"}, {"pooling": "cls", "normalize": 3}, {"size": 1}, [1]):
        with pytest.raises(CheckpointError, match="is not what kept writes"):
            SentenceModules.of_settings({"sentences": values})


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_an_exported_host_opens_elsewhere(pooling: str, tmp_path: Path) -> None:
    encoder = AutoEncoder.from_pretrained(
        folder_of(tmp_path / "host", {"pooling_mode": pooling}, "Normalize", length=9)
    )
    encoder.save_pretrained(tmp_path / "saved")
    opened = AutoEncoder.from_pretrained(tmp_path / "saved")
    opened.export_host(tmp_path / "export")
    expected = encoder.encode(TEXTS).sentences
    for text, vector in zip(TEXTS, expected, strict=True):
        by_transformers = by_hand(tmp_path / "export", text, pooling, True, 9)
        torch.testing.assert_close(vector, by_transformers, atol=1e-5, rtol=1e-5)
    back = AutoEncoder.from_pretrained(tmp_path / "export").encode(TEXTS).sentences
    torch.testing.assert_close(back, expected, atol=1e-6, rtol=1e-6)
    library = pytest.importorskip(
        "sentence_transformers", reason="sentence-transformers is not installed"
    )
    theirs = library.SentenceTransformer(str(tmp_path / "export"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(theirs, expected.numpy(), atol=1e-5)


def test_the_host_of_a_method_is_exported(tmp_path: Path, small_graph: KnowledgeGraph) -> None:
    folder = write_host(tmp_path / "host")
    encoder = AutoEncoder.from_host("kbert", folder, small_graph)
    encoder.export_host(tmp_path / "export")
    ours, theirs = (
        encoder.encoder.host.state_dict(),
        hosts.load_host(tmp_path / "export").state_dict(),
    )
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    with pytest.raises(ExistsError):
        encoder.export_host(tmp_path / "export")
    encoder.export_host(tmp_path / "export", force=True)
    encoder.encoder.config.inside = {"lora": {}}
    with pytest.raises(ConfigError, match="the host has lora inside"):
        encoder.export_host(tmp_path / "other")
