"""Models and hosts on disk: what was altered, cut, forged or is not a number is refused by name."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertForMaskedLM

from kept import hosts, model_files
from kept.auto import AutoEncoder
from kept.encoders.base import KnowledgeEncoder
from kept.errors import CheckpointError, KeptError
from kept.kge import make_scorer
from kept.kge.trained import save_scorer
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph, atlas
from tests import flips
from tests.kept.tiny_hosts import method_encoder, tiny_host


def save_model(folder: Path, small_graph: KnowledgeGraph, tokenizer: Any) -> Path:
    """A pre-trained CoLAKE with its tokenizer and the settings of its run."""
    model = KnowledgeForPreTraining.of(
        method_encoder("colake", small_graph, tokenizer), {"masked_nodes": {}}
    )
    model.tokenizer = tokenizer
    folder.mkdir()
    (folder / "pretrain.json").write_text(json.dumps({"graph": {"max_words": 24}}))
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def saved(tmp_path: Path, small_graph: KnowledgeGraph, tokenizer: Any) -> Path:
    return save_model(tmp_path / "model", small_graph, tokenizer)


@pytest.fixture
def own_host(tmp_path: Path, host: Path) -> Path:
    return Path(shutil.copytree(host, tmp_path / "own"))


def _edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def _weights(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


# ---- every byte ----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def damaged(
    tmp_path_factory: pytest.TempPathFactory,
    host: Path,
    small_graph: KnowledgeGraph,
    tokenizer: Any,
) -> dict[str, list[flips.Outcome]]:
    """What came of damage to a model, a host of others, an adapter and a scorer."""
    folder = tmp_path_factory.mktemp("damaged")
    save_model(folder / "model", small_graph, tokenizer)
    shutil.copytree(host, folder / "host")
    encoder = method_encoder("kadapter", small_graph, tokenizer)
    encoder.save_adapter(folder / "adapter", encoder.names[0])
    graph = atlas.graph()
    sizes = {"n_entities": graph.n_entities, "n_relations": graph.n_relations, "width": 4}
    scorer = make_scorer("transe", **sizes, generator=torch.Generator(), norm=1)
    save_scorer(folder / "scorer", scorer, graph, {"seed": 0})
    n_flips = {"model": 4, "host": 4, "adapter": 8, "scorer": 8}
    folders = {name: folder / name for name in n_flips}
    return flips.outcomes(
        {k: (path, flips.damages(path, n_flips=n_flips[k])) for k, path in folders.items()}
    )


def test_no_damage_to_a_model_is_silent_or_a_crash(
    damaged: dict[str, list[flips.Outcome]], record_property: Callable[[str, object], None]
) -> None:
    outcomes = damaged["model"]
    bad = [e for e in outcomes if e.verdict not in ("refused", "same", "told")]
    assert not bad, bad
    assert len(outcomes) >= 31
    assert all(each.verdict == "refused" for each in outcomes if each.damage.how == "flip")
    record_property("damage to a model", f"{len(outcomes)}, none silent, none a crash")


def test_no_damage_to_a_host_is_a_crash_and_what_cannot_be_seen_is_told(
    damaged: dict[str, list[flips.Outcome]], record_property: Callable[[str, object], None]
) -> None:
    """A host of others has no checksums: a number that became another number cannot be seen."""
    outcomes = damaged["host"]
    bad = [e for e in outcomes if e.verdict not in ("refused", "same", "told")]
    assert not bad, bad
    n_told = sum(each.verdict == "told" for each in outcomes)
    record_property("damage to a host", f"{len(outcomes)}, none a crash, {n_told} behind a warning")


@pytest.mark.parametrize("name", ["adapter", "scorer"])
def test_no_damage_to_an_adapter_or_a_scorer_is_silent_or_a_crash(
    name: str, damaged: dict[str, list[flips.Outcome]]
) -> None:
    outcomes = damaged[name]
    assert all(each.verdict in ("refused", "same") for each in outcomes), outcomes
    assert all(each.verdict == "refused" for each in outcomes if each.damage.how == "flip")


# ---- models of kept ------------------------------------------------------------------------------
def test_a_sealed_model_opens_in_silence(saved: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kept"):
        assert AutoEncoder.from_pretrained(saved).builder.max_words == 24
    assert not caplog.messages
    listed = json.loads((saved / "checksums.json").read_text())["files"]
    assert {"model.safetensors", "config.json", "tokenizer.json", "pretrain.json"} <= {*listed}


@pytest.mark.parametrize("name", ["adapter_config.json", "more.safetensors"])
def test_weights_that_are_not_listed_are_refused(saved: Path, name: str) -> None:
    (saved / name).write_text("{}")
    with pytest.raises(CheckpointError, match=f"{name} is not listed in checksums.json"):
        KnowledgeForPreTraining.from_pretrained(saved)


def test_a_name_outside_the_folder_is_refused(saved: Path) -> None:
    _edit(
        saved / "checksums.json",
        lambda values: values["files"].update({"../x": values["files"]["config.json"]}),
    )
    flips.forge(saved, {}, "checksums.json")
    with pytest.raises(CheckpointError, match=r"'\.\./x', which is none inside the folder"):
        KnowledgeForPreTraining.from_pretrained(saved)


def test_a_model_without_checksums_opens_and_says_so(
    saved: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (saved / "checksums.json").unlink()
    for _ in range(2):
        KnowledgeForPreTraining.from_pretrained(saved)
    assert [str(saved) in each and "structure" in each for each in caplog.messages] == [True]


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_weights_that_are_no_numbers_are_refused(saved: Path, value: float) -> None:
    name = "encoder.host.encoder.layer.1.output.dense.weight"

    def spoil(tensors: dict[str, Any]) -> None:
        tensors[name][3, 2] = value

    _weights(saved / "model.safetensors", spoil)
    flips.forge(saved, {}, "checksums.json")
    with pytest.raises(CheckpointError, match=f"NaN or infinite weights in {name}"):
        KnowledgeForPreTraining.from_pretrained(saved)


def test_a_mask_may_hold_minus_infinity_and_nothing_else() -> None:
    module = torch.nn.Linear(2, 2)
    module.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
    model_files.require_finite(module, "here")
    for value in (torch.nan, torch.inf):
        module.mask = torch.tensor([0.0, value])
        with pytest.raises(CheckpointError, match="here holds NaN or infinite weights in mask"):
            model_files.require_finite(module, "here")


# ---- hosts of others -----------------------------------------------------------------------------
def _drop(prefix: str) -> Callable[[dict[str, Any]], None]:
    def change(tensors: dict[str, Any]) -> None:
        for name in [name for name in tensors if name.startswith(prefix)]:
            del tensors[name]

    return change


def test_missing_weights_of_a_host_are_an_error(own_host: Path) -> None:
    _weights(own_host / "model.safetensors", _drop("encoder.layer.1.attention"))
    with pytest.raises(CheckpointError, match=r"lacks weights .*encoder\.layer\.1\.attention"):
        hosts.load_host(own_host)


def test_a_host_without_a_pooler_is_one(own_host: Path) -> None:
    _weights(own_host / "model.safetensors", _drop("pooler."))
    assert hosts.load_host(own_host).config.num_hidden_layers == 2


def test_layers_left_over_mean_another_configuration(own_host: Path) -> None:
    _edit(own_host / "config.json", lambda values: values.update(num_hidden_layers=1))
    with pytest.raises(CheckpointError, match=r"no place for weights .*encoder\.layer\.1\."):
        hosts.load_host(own_host)


def test_the_heads_of_a_host_may_be_left_over(own_host: Path) -> None:
    config = hosts.load_host(own_host).config
    BertForMaskedLM(config).save_pretrained(own_host)
    assert hosts.load_host(own_host).config.num_hidden_layers == 2


def test_a_host_with_nan_is_refused(own_host: Path) -> None:
    def spoil(tensors: dict[str, Any]) -> None:
        tensors["embeddings.LayerNorm.bias"][0] = torch.nan

    _weights(own_host / "model.safetensors", spoil)
    with pytest.raises(CheckpointError, match=r"NaN or infinite .*embeddings\.LayerNorm\.bias"):
        hosts.load_host(own_host)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", "[]"),
        ("config.json", "{"),
        ("config.json", '{"model_type": "bert", "hidden_size": "wide"}'),
        ("tokenizer.json", "{}"),
        ("tokenizer.json", '{"model": {}}'),
        ("tokenizer_config.json", "7"),
        ("model.safetensors", ""),
        ("model.safetensors", "\xff" * 100),
    ],
)
def test_files_that_make_no_sense_are_refused_by_name(own_host: Path, name: str, text: str) -> None:
    (own_host / name).write_text(text, encoding="latin-1")
    load = hosts.load_tokenizer if name.startswith("tokenizer") else hosts.load_host
    with pytest.raises(KeptError, match=str(own_host)):
        load(own_host)


@pytest.mark.parametrize("family", ["roberta", "electra"])
def test_every_family_loads_whole(tmp_path: Path, family: str) -> None:
    tiny_host(family).save_pretrained(tmp_path)
    assert hosts.load_host(tmp_path).config.model_type == family


def test_an_encoder_alone_opens_from_a_model_with_heads(
    saved: Path, small_graph: KnowledgeGraph
) -> None:
    encoder = AutoEncoder.from_pretrained(saved).encoder
    assert isinstance(encoder, KnowledgeEncoder)
    encoder.require_graph(small_graph)
