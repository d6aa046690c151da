"""LoRA against peft's own model and against a product of matrices; adapters beside a decoder."""

from __future__ import annotations

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from transformers import PreTrainedModel

from kept import decoders
from kept.adapters.lora import MAX_ALPHA, LoraOptions
from kept.batches import Visibility
from kept.decoders.adapters import (
    APART,
    DecoderAdapter,
    insert_decoder_lora,
    load_lora_state,
    lora_state,
)
from kept.errors import ConfigError
from tests.kept.tiny_decoders import texts, tiny_decoder

CLOSE = {"rtol": 1e-5, "atol": 1e-6}
every_family = pytest.mark.parametrize("family", decoders.FAMILIES)
OPTIONS = LoraOptions(rank=2, alpha=3.0, targets=("query", "value", "output"))


def scores(host: PreTrainedModel) -> Tensor:
    ids, mask = texts("left")
    logits: Tensor = host(ids, attention_mask=mask.long()).logits
    return logits[mask]


def disturbed(host: PreTrainedModel) -> PreTrainedModel:
    """All that is inserted gets other values, the same at each call."""
    draws = torch.Generator().manual_seed(3)
    values = {n: torch.randn(v.shape, generator=draws) for n, v in lora_state(host).items()}
    load_lora_state(host, values)
    return host


@every_family
def test_lora_begins_without_effect_and_moves_alone(family: str) -> None:
    host = tiny_decoder(family)
    with torch.no_grad():
        before = scores(host)
    insert_decoder_lora(host, OPTIONS)
    assert torch.equal(scores(host), before)
    trained = [name for name, value in host.named_parameters() if value.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)
    assert len(lora_state(host)) == len(trained)
    scores(host).sum().backward()
    assert all(p.grad is None for n, p in host.named_parameters() if n not in trained)
    assert not torch.equal(scores(disturbed(host)), before)


@every_family
def test_lora_is_that_of_peft(family: str) -> None:
    ours = tiny_decoder(family)
    insert_decoder_lora(ours, OPTIONS)
    places = {
        "gpt2": ["c_attn", "attn.c_proj"],
        "phi3": ["qkv_proj", "o_proj"],
    }.get(family, ["q_proj", "v_proj", "o_proj"])
    config = LoraConfig(r=2, lora_alpha=3.0, target_modules=places, fan_in_fan_out=family == "gpt2")
    model = get_peft_model(tiny_decoder(family), config)
    theirs = model.get_base_model()
    assert lora_state(ours).keys() == lora_state(theirs).keys()
    disturbed(ours), disturbed(theirs)
    torch.testing.assert_close(scores(ours), scores(theirs), rtol=0, atol=0)
    scores(ours).square().sum().backward()
    scores(theirs).square().sum().backward()
    grads = {n: p.grad for n, p in theirs.named_parameters() if p.requires_grad}
    for name, value in ours.named_parameters():
        if value.requires_grad:
            torch.testing.assert_close(value.grad, grads[name], rtol=0, atol=0)


def test_lora_is_a_product_of_matrices_added_to_the_weight() -> None:
    host, plain = tiny_decoder("llama"), tiny_decoder("llama")
    insert_decoder_lora(host, OPTIONS)
    disturbed(host)
    with torch.no_grad():
        for number, layer in enumerate(decoders.layers(host)):
            for name in OPTIONS.targets:
                changed = layer.get_submodule(APART[name])
                weight = decoders.layers(plain)[number].get_parameter(f"{APART[name]}.weight")
                up, down = changed.lora_B["default"].weight, changed.lora_A["default"].weight
                weight += OPTIONS.alpha / OPTIONS.rank * up @ down
        torch.testing.assert_close(scores(host), scores(plain), **CLOSE)


def test_lora_of_other_targets_is_refused() -> None:
    host, other = tiny_decoder("llama"), tiny_decoder("llama")
    insert_decoder_lora(host, OPTIONS)
    insert_decoder_lora(other, LoraOptions(rank=2, targets=("query",)))
    with pytest.raises(ConfigError, match="LoRA of another host or other targets"):
        load_lora_state(host, lora_state(other))


def run(host: PreTrainedModel, ids: Tensor, mask: Tensor) -> tuple[tuple[Tensor, ...], Visibility]:
    positions, visibility = decoders.running_positions(mask), Visibility.causal(mask)
    with torch.no_grad():
        hidden = decoders.embed(host, host.get_input_embeddings()(ids), positions)
        return decoders.run(host, hidden, visibility, positions), visibility


def adapter_of(host: PreTrainedModel) -> DecoderAdapter:
    torch.manual_seed(1)
    return DecoderAdapter(host, {"layers": (0, 2), "width": 8, "n_heads": 2, "n_layers": 1}).eval()


@every_family
def test_an_adapter_begins_near_the_host_and_sees_no_later_word(family: str) -> None:
    host, (ids, mask) = tiny_decoder(family), texts()
    adapter = adapter_of(host)
    states, visibility = run(host, ids, mask)
    new = adapter(states, visibility)
    torch.testing.assert_close(new[mask], states[-1][mask], rtol=0, atol=1e-2)
    assert not torch.equal(new[mask], states[-1][mask])
    with torch.no_grad():
        adapter.adapter.blocks[-1].up_project.weight *= 1e4
        long = adapter(states, visibility)[0]
        cut = adapter(*run(host, ids[:1, :4], mask[:1, :4]))[0]
    torch.testing.assert_close(long[:4], cut, rtol=1e-4, atol=1e-5)


def test_an_adapter_writes_as_its_states_say_and_padding_changes_nothing() -> None:
    host, (ids, mask) = tiny_decoder("llama"), texts("left")
    adapter = adapter_of(host)
    with torch.no_grad():
        adapter.adapter.blocks[-1].up_project.weight *= 1e4
    written = adapter.write(host, ids, mask, n_new=2).words
    for row, real in enumerate(mask):
        text = ids[row, real][None]
        for position in range(2):
            states, visibility = run(host, text, torch.ones_like(text, dtype=torch.bool))
            with torch.no_grad():
                word = decoders.logits(host, adapter(states, visibility)[:, -1]).argmax(-1)
            assert int(written[row, position]) == int(word)
            text = torch.cat([text, word[None]], dim=1)
    plain = host.generate(ids, attention_mask=mask.long(), max_new_tokens=2, do_sample=False)
    assert not torch.equal(written, plain[:, ids.shape[1] :])


def test_options_at_their_bounds_are_taken_and_every_fault_beyond_is_named() -> None:
    assert LoraOptions(rank=1, alpha=MAX_ALPHA, dropout=0.0, targets=["output"]).rank == 1
    faults = [
        ({"rank": 0}, "rank 0"), ({"alpha": 0.0}, "alpha 0.0"), ({"targets": ()}, "at least"),
        ({"alpha": 2 * MAX_ALPHA}, "alpha"), ({"dropout": 1.0}, "dropout 1.0"),
        ({"dropout": -0.1}, "dropout -0.1"), ({"targets": ("query", "keys")}, "targets 'keys'"),
    ]  # fmt: skip
    for options, message in faults:
        with pytest.raises(ConfigError, match=rf"^lora: [^;]*{message}[^;]*$"):
            LoraOptions(**options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"rank -1: 1 or more; alpha 0.0: .*; dropout 1.5: "):
        LoraOptions(rank=-1, alpha=0.0, dropout=1.5)
