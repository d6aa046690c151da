"""Four facts about a host at opening: precision, frozen parameters, injected modules, rows."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from kept import hosts
from kept.auto import AutoEncoder
from kept.decoders.hosts import load_decoder
from kept.errors import HostError
from kept.host_facts import require_rows, require_trainable_precision, stored_precisions
from tests.kept.tiny_decoders import tiny_decoder
from tests.kept.tiny_hosts import fast_tokenizer, tiny_host

WORDS = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(25))]
HALVES = (torch.float16, torch.bfloat16)


def tokenizer(n_more: int = 0) -> Any:
    words = [*WORDS, *(f"new{i}" for i in range(n_more))]
    inner = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = Whitespace()
    return fast_tokenizer(inner)


def save(folder: Path, dtype: torch.dtype = torch.float32, family: str = "bert") -> Path:
    host = tiny_host(family).to(dtype)
    host.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


# ---- precision -----------------------------------------------------------------------------------
@pytest.mark.parametrize("family", hosts.FAMILIES)
@pytest.mark.parametrize("dtype", HALVES)
def test_a_host_in_half_precision_is_opened_in_float32_and_the_log_says_so(
    family: str, dtype: torch.dtype, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save(tmp_path / "host", dtype, family)
    assert stored_precisions(folder) == (str(dtype).removeprefix("torch."),)
    with caplog.at_level(logging.WARNING, "kept"):
        host = hosts.load_host(folder)
    assert {p.dtype for p in host.parameters()} == {torch.float32}
    assert f"{folder} is stored in {dtype}".replace("torch.", "") in caplog.text
    assert "loaded in float32" in caplog.text


def test_weights_are_not_rounded_to_what_the_configuration_says(tmp_path: Path) -> None:
    folder = save(tmp_path / "host")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16"}))
    weights = hosts.load_host(folder).embeddings.word_embeddings.weight
    assert torch.equal(weights, tiny_host().embeddings.word_embeddings.weight)


def test_a_decoder_keeps_its_precision_unless_it_is_to_be_trained(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tiny_decoder("llama").to(torch.bfloat16).save_pretrained(tmp_path / "decoder")
    with caplog.at_level(logging.WARNING, "kept"):
        assert load_decoder(tmp_path / "decoder").dtype == torch.bfloat16
    assert "computed in bfloat16, which is for inference alone" in caplog.text
    assert load_decoder(tmp_path / "decoder", for_training=True).dtype == torch.float32


@pytest.mark.parametrize("dtype", HALVES)
def test_parameters_in_half_precision_are_not_trained(dtype: torch.dtype) -> None:
    host = tiny_host().to(dtype)
    with pytest.raises(HostError, match=r"half precision \(embeddings.*model.float\(\)"):
        require_trainable_precision(host)
    require_trainable_precision(host.requires_grad_(False))
    require_trainable_precision(host.float().requires_grad_(True))


# ---- adapters ------------------------------------------------------------------------------------
def save_adapter(tmp_path: Path, **options: Any) -> tuple[Path, Any]:
    """The folder of a trained adapter, and peft's own merged model."""
    peft = pytest.importorskip("peft", reason="peft is not installed (pip install 'kept[peft]')")
    base = hosts.load_host(save(tmp_path / "base"))
    settings = {"r": 2, "target_modules": ["query", "value"], "init_lora_weights": False}
    wrapped = peft.get_peft_model(base, peft.LoraConfig(**settings | options)).eval()
    wrapped.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter", wrapped.merge_and_unload()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"target_modules": ["query", "dense"], "bias": "lora_only"},
        {"use_dora": True},
        {"modules_to_save": ["pooler"]},
    ],
)
def test_an_adapter_is_merged_into_its_base_and_all_of_it_can_be_trained(
    options: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    adapter, merged = save_adapter(tmp_path, **options)
    with caplog.at_level(logging.WARNING, "kept"):
        host = hosts.load_host(adapter)
    assert f"{adapter} is a peft adapter of {tmp_path / 'base'}: merged" in caplog.text
    assert all(parameter.requires_grad for parameter in host.parameters())
    ours, theirs = host.state_dict(), merged.state_dict()
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], msg=name)
    host.save_pretrained(tmp_path / "saved")
    tokenizer().save_pretrained(tmp_path / "saved")
    assert torch.equal(
        hosts.load_host(tmp_path / "saved").encoder.layer[0].attention.self.query.weight,
        host.encoder.layer[0].attention.self.query.weight,
    )


def test_every_way_of_opening_gives_the_same_answer_for_an_adapter(tmp_path: Path) -> None:
    adapter, merged = save_adapter(tmp_path)
    encoder = AutoEncoder.from_pretrained(adapter)
    assert torch.allclose(
        encoder.encoder.host.encoder.layer[1].attention.self.value.weight,
        merged.encoder.layer[1].attention.self.value.weight,
    )
    assert encoder.encode("w1 w2").sentences.shape == (1, 16)


def test_an_adapter_that_does_not_fit_is_refused_by_name(tmp_path: Path) -> None:
    adapter, _ = save_adapter(tmp_path)
    tiny_host(n_layers=1).save_pretrained(tmp_path / "base")
    with pytest.raises(HostError, match=r"adapter has no place for 4 weights.*merge_and_unload"):
        hosts.load_host(adapter)
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    with pytest.raises(HostError, match="no pickle is read"):
        hosts.load_host(adapter)
    (adapter / "adapter_config.json").write_text("{}")
    with pytest.raises(HostError, match="names no base model"):
        hosts.load_host(adapter)


def test_a_host_with_injected_modules_is_refused(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed (pip install 'kept[peft]')")
    host = tiny_host()
    peft.inject_adapter_in_model(peft.LoraConfig(target_modules=["query"]), host)
    with pytest.raises(HostError, match=r"peft injected \(encoder.layer.0.*merge_and_unload"):
        hosts.check_host(host)


# ---- rows ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("n_more", [1, 7])
def test_a_token_without_a_row_is_refused_when_the_tokenizer_is_opened(
    n_more: int, tmp_path: Path
) -> None:
    folder = save(tmp_path / "host")
    tokenizer(n_more).save_pretrained(folder)
    with pytest.raises(
        HostError, match=rf"{n_more} tokens without a row.*'new0', number 30.*{30 + n_more}\)"
    ):
        hosts.load_tokenizer(folder)


def test_fewer_tokens_than_rows_are_as_usual(tmp_path: Path) -> None:
    folder = save(tmp_path / "host")
    host = tiny_host()
    host.resize_token_embeddings(40)
    host.save_pretrained(folder)
    assert len(hosts.load_tokenizer(folder)) == 30
    require_rows(tokenizer(10), 40)
    with pytest.raises(HostError, match="1 tokens without a row"):
        require_rows(tokenizer(11), 40)
