"""Folders of strangers: what no model needs is refused by its name, sealed or not, before building.

Each case changes one setting of a folder that opens as it is.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from kept.decoders.hosts import load_decoder
from kept.errors import CheckpointError, HostError
from kept.hosts import load_host
from kept.model_files import seal_model
from kept.model_settings import require_sane
from tests.kept.tiny_decoders import tiny_decoder
from tests.kept.tiny_hosts import tiny_host

SETTINGS: list[tuple[str, Any, str]] = [
    ("num_hidden_layers", 1_000_000, "expected a whole number from 1 to 1,000"),
    ("num_hidden_layers", 900, "the weights hold 39 tensors"),
    ("num_hidden_layers", 0, "expected a whole number from 1"),
    ("num_hidden_layers", True, "expected a whole number from 1"),
    ("num_hidden_layers", 2.0, "expected a whole number from 1"),
    ("num_hidden_layers", "2", "expected a whole number from 1"),
    ("hidden_size", 10**200, "is a number of about 201 digits"),
    ("hidden_size", 500_000, "numbers"),
    ("intermediate_size", -1, "expected a whole number from 1"),
    ("vocab_size", 90_000_000, "the weights hold"),
    ("vocab_size", 10**12, "expected a whole number from 1 to 100,000,000"),
    ("max_position_embeddings", 10**9, "expected a whole number"),
    ("type_vocab_size", -2, "expected a whole number from 0"),
    ("num_attention_heads", 0, "expected a whole number from 1"),
    ("hidden_dropout_prob", float("nan"), "not a number that a model can have"),
    ("hidden_dropout_prob", 1.5, "expected a share from 0 to 1"),
    ("attention_probs_dropout_prob", "0.1", "expected a share from 0 to 1"),
    ("classifier_dropout", -0.1, "expected a share from 0 to 1"),
    ("layer_norm_eps", float("nan"), "not a number that a model can have"),
    ("layer_norm_eps", -1, "expected a number from 0"),
    ("initializer_range", float("inf"), "not a number that a model can have"),
    ("pad_token_id", 10**40, "not a number that a model can have"),
    ("_attn_implementation", "org/repo", "another's code would be fetched"),
    ("attn_implementation", "kernels-community/flash-attn", "another's code would be fetched"),
    ("attn_implementation", {"": "org/repo:fn"}, "another's code would be fetched"),
    ("num_labels", 10**8, "expected a whole number from 0"),
]


def changed(folder: Path, file: str, name: str, value: Any) -> None:
    """Give a field of a JSON file another value."""
    values = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**values, name: value}))


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(("name", "value", "message"), SETTINGS)
def test_a_setting_is_refused_by_name_before_anything_is_built(
    name: str, value: Any, message: str, sealed: bool, tmp_path: Path
) -> None:
    tiny_host().save_pretrained(tmp_path)
    changed(tmp_path, "config.json", name, value)
    if sealed:
        seal_model(tmp_path)
    started = time.process_time()
    with pytest.raises(HostError, match=r"config\.json") as caught:
        load_host(tmp_path)
    assert name in str(caught.value)
    assert message in str(caught.value)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("value", ["long", True, 0, -5, float("nan"), [512]])
def test_a_length_that_is_none(value: Any, tmp_path: Path) -> None:
    tiny_host().save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": value}))
    with pytest.raises(CheckpointError, match=r"model_max_length is .*, expected a number from 1"):
        require_sane(tmp_path)


@pytest.mark.parametrize("value", [512, 1e30, 10**30, None])
def test_lengths_that_people_write(value: Any, tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": value}))
    require_sane(tmp_path)


def test_the_same_settings_inside_another_object(tmp_path: Path) -> None:
    inner = {"model_type": "bert", "num_hidden_layers": 10**6}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "kept-kbert", "host": inner}))
    with pytest.raises(CheckpointError, match="num_hidden_layers is 1000000"):
        require_sane(tmp_path)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_decoder_whose_attention_would_be_fetched(family: str, tmp_path: Path) -> None:
    tiny_decoder(family).save_pretrained(tmp_path)
    load_decoder(tmp_path)
    changed(tmp_path, "config.json", "_attn_implementation", "org/repo")
    with pytest.raises(HostError, match="none of eager, sdpa, flex_attention"):
        load_decoder(tmp_path)


@pytest.mark.parametrize("kind", [torch.int32, torch.int64, torch.int8, torch.uint8, torch.bool])
def test_weights_that_would_be_cast(kind: torch.dtype, tmp_path: Path) -> None:
    tiny_host().save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    name = "encoder.layer.0.output.dense.weight"
    save_file(weights | {name: weights[name].to(kind)}, tmp_path / "model.safetensors",
              metadata={"format": "pt"})  # fmt: skip
    with pytest.raises(HostError, match=rf"{name} as \w+, expected one of F64, F32, F16, BF16"):
        load_host(tmp_path)


def shards_at(folder: Path, name: object) -> None:
    """Weights in a file outside `folder`, and an index that names it."""
    tiny_host().save_pretrained(folder)
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").unlink()
    (folder.parent / "outside.safetensors").write_bytes(weights)
    (folder / "inner").mkdir()
    (folder / "inner" / "model.safetensors").write_bytes(weights)
    names = dict.fromkeys(load_file(folder.parent / "outside.safetensors"), name)
    index = {"metadata": {"total_size": len(weights)}, "weight_map": names}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(
    "name",
    ["../outside.safetensors", "{above}/outside.safetensors", "inner/model.safetensors",
     "..", "", "model.bin", 7, None, "a\0.safetensors", "gone.safetensors"],
)  # fmt: skip
def test_a_shard_that_lies_elsewhere(name: object, sealed: bool, tmp_path: Path) -> None:
    folder = tmp_path / "host"
    above = name.replace("{above}", str(tmp_path)) if isinstance(name, str) else name
    shards_at(folder, above)
    if sealed:
        seal_model(folder)
    with pytest.raises(HostError, match=r"model.safetensors.index.json"):
        load_host(folder)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [pipe, unix_socket, device])
@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.json", "vocab.txt", "finetune.json"]
)
def test_no_pipe_is_waited_for(
    name: str, make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_host().save_pretrained(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    make(Path(name))
    with pytest.raises(HostError, match=rf"{name} is a (pipe|socket|device), not a file"):
        load_host(tmp_path)


def test_a_long_header_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", 2**60) + b"{}")
    require_sane(tmp_path)  # safetensors itself says what is wrong with it


@pytest.mark.parametrize("digits", [5000, 100_000])
def test_a_number_of_many_digits(digits: int, tmp_path: Path) -> None:
    tiny_host().save_pretrained(tmp_path)
    text = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(text.replace("{", f'{{"x": {"9" * digits},', 1))
    with pytest.raises(HostError, match=r"config.json cannot be read"):
        load_host(tmp_path)
