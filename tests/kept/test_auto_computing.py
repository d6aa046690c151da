"""`AutoEncoder.compute_with`: other backends give torch's vectors, or say why they cannot."""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from kept import hosts
from kept.auto import AutoEncoder, exported
from kept.auto.computing import PRECISIONS, Backend
from kept.errors import ConfigError, MissingExtraError
from kept.layers import products
from kept.methods import METHODS
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import method_encoder

BACKENDS: tuple[Backend, ...] = ("openvino", "onnx")
TEXTS = ["Ann lives in Rome", "Bob", "Rome is old and Ann is not", "Ann"]
BETWEEN_LAYERS = {"bertmk", "ernie", "greaselm", "knowbert", "luke"}
"""Methods that compute between the layers of their host, or inside them."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KEPT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def require(backend: str) -> None:
    for package in exported.PACKAGES[backend]:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install 'kept[{backend}]'")


def auto_encoder(
    name: str, graph: KnowledgeGraph, tokenizer: Any, family: str = "bert"
) -> AutoEncoder:
    return AutoEncoder(method_encoder(name, graph, tokenizer, family=family), tokenizer)


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        *((name, "onnx") for name in ("none", "words", "kepler", "kbert", "colake")),
        ("kbert", "openvino"),
        ("colake", "openvino"),
    ],
)
def test_methods_give_the_vectors_of_torch(
    name: str, backend: Backend, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    require(backend)
    encoder = auto_encoder(name, small_graph, tokenizer)
    reference = encoder.encode(TEXTS, small_graph, layers=True, batch_size=3)
    assert encoder.agreement is None
    encoded = encoder.compute_with(backend).encode(TEXTS, small_graph, layers=True, batch_size=3)
    assert torch.allclose(encoded.sentences, reference.sentences, atol=1e-5)
    for ours, theirs in zip(encoded.texts, reference.texts, strict=True):
        assert ours.layers is not None
        assert theirs.layers is not None
        assert torch.allclose(ours.layers, theirs.layers, atol=1e-5)
    assert encoder.agreement is not None
    assert 0 < encoder.agreement.max_difference < 1e-5  # it was not torch again
    assert encoder.agreement.least_cosine > 0.99999


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_is_computed_or_refused(
    name: str, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    require("onnx")
    encoder = auto_encoder(name, small_graph, tokenizer)
    reference = encoder.encode(TEXTS, small_graph).sentences
    encoder.compute_with("onnx")
    if name in BETWEEN_LAYERS:
        with pytest.raises(ConfigError, match=r"between the layers of its host; use 'torch'"):
            encoder.encode(TEXTS, small_graph)
        encoder.compute_with("torch")
    assert torch.allclose(encoder.encode(TEXTS, small_graph).sentences, reference, atol=1e-5)


@pytest.mark.parametrize("family", ["roberta", "distilbert", "albert", "nomic_bert", "modernbert"])
def test_families_that_are_exported(
    family: str, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    require("onnx")
    encoder = auto_encoder("kbert", small_graph, tokenizer, family)
    reference = encoder.encode(TEXTS, small_graph).sentences
    vectors = encoder.compute_with("onnx").encode(TEXTS, small_graph).sentences
    assert torch.allclose(vectors, reference, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_layers_are_exported_once_for_the_same_weights(
    backend: Backend, small_graph: KnowledgeGraph, tokenizer: Any, own_cache: Path
) -> None:
    require(backend)
    encoder = auto_encoder("none", small_graph, tokenizer).compute_with(backend)
    (folder,) = (own_cache / "exported").iterdir()
    written = folder.stat().st_mtime_ns
    auto_encoder("kbert", small_graph, tokenizer).compute_with(backend)  # the same host
    assert folder.stat().st_mtime_ns == written
    assert [each for each in (own_cache / "exported").iterdir() if each.is_dir()] == [folder]
    with torch.no_grad():
        next(encoder.encoder.host.parameters()).mul_(2)
    encoder.compute_with(backend)
    assert len([each for each in (own_cache / "exported").iterdir() if each.is_dir()]) == 2


def test_a_training_goes_through_torch(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    require("openvino")
    encoder = auto_encoder("none", small_graph, tokenizer).compute_with("openvino")
    encoder.encode(TEXTS)
    host = encoder.encoder.host
    hidden = torch.zeros(1, 3, int(host.config.hidden_size), requires_grad=True)
    visible = torch.ones(1, 3, 3, dtype=torch.bool)
    states = hosts.run(host, hidden, hosts.Visibility(visible))
    states[-1].sum().backward()
    assert hidden.grad is not None


@pytest.mark.parametrize("precision", ["bf16", "int8", "auto"])
def test_precisions_are_compared_with_float32(
    precision: Any, small_graph: KnowledgeGraph, tokenizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = auto_encoder("kbert", small_graph, tokenizer)
    reference = encoder.encode(TEXTS, small_graph).sentences
    with caplog.at_level(logging.INFO, "kept"):
        vectors = encoder.compute_with("torch", precision).encode(TEXTS, small_graph).sentences
    agreement = encoder.agreement
    assert agreement is not None
    cosines = torch.cosine_similarity(vectors, reference)
    assert float(cosines.min()) > 0.9
    if precision == "auto":
        assert "precision: " in caplog.text
        assert agreement.precision == "fp32" or agreement.least_cosine >= 0.999
    else:
        assert agreement.precision == precision
        assert f"torch in {precision}: " in caplog.text
        assert "cosine at least" in caplog.text
        assert agreement.max_difference > 0
    if agreement.precision == "fp32":
        assert torch.equal(vectors, reference)
    after = encoder.compute_with("torch").encode(TEXTS, small_graph).sentences
    assert torch.equal(after, reference)  # the encoder itself was not changed


def test_what_is_not_there_is_named(
    small_graph: KnowledgeGraph, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = auto_encoder("none", small_graph, tokenizer)
    with pytest.raises(ConfigError, match=r"'tensorrt': one of torch, openvino, onnx"):
        encoder.compute_with("tensorrt")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"'int8': backend 'onnx' has fp32"):
        encoder.compute_with("onnx", "int8")
    monkeypatch.setattr(exported, "find_spec", lambda name: None)
    for backend in BACKENDS:
        with pytest.raises(MissingExtraError, match=rf"pip install 'kept\[{backend}\]'"):
            encoder.compute_with(backend)
    assert set(PRECISIONS) == {"torch", *exported.PACKAGES}


def test_products_of_an_export_are_torchs(
    small_graph: KnowledgeGraph, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("onnx")
    monkeypatch.setattr(products, "LEAST_WORK", 1)
    with products.using("onednn"):
        encoder = auto_encoder("none", small_graph, tokenizer)
        reference = encoder.encode(TEXTS).sentences
        vectors = encoder.compute_with("onnx").encode(TEXTS).sentences
    assert torch.allclose(vectors, reference, atol=1e-5)


def test_no_usage_data_are_sent(
    small_graph: KnowledgeGraph, tokenizer: Any, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("openvino")
    backend = pytest.importorskip("openvino_telemetry.backend.backend_ga4")
    calls: list[object] = []
    monkeypatch.setattr(backend.GA4Backend, "send", lambda *message: calls.append(message))
    monkeypatch.delenv("CI", raising=False)
    auto_encoder("none", small_graph, tokenizer).compute_with("openvino").encode(TEXTS)
    assert list((own_cache / "exported").iterdir()), "it was exported here"
    assert calls == []
    assert "CI" not in os.environ
