"""Decoder hosts: every family and attention against its own forward, cache, padding, masks."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, PreTrainedModel

from kept import decoders
from kept.batches import IGNORE, Visibility
from kept.decoders.hosts import with_cache
from kept.errors import BatchError, CheckpointError, ConfigError, HostError
from tests.kept.tiny_decoders import N_POSITIONS, N_WORDS, texts, tiny_decoder

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
every_family = pytest.mark.parametrize("family", decoders.FAMILIES)
both = pytest.mark.parametrize("attention", ["sdpa", "eager"])
sides = pytest.mark.parametrize("side", ["left", "right"])


def states(
    host: PreTrainedModel,
    ids: Tensor,
    visibility: Visibility,
    positions: Tensor,
    cache: DynamicCache | None = None,
) -> tuple[Tensor, ...]:
    vectors = host.get_input_embeddings()(ids)
    with torch.no_grad():
        hidden = decoders.embed(host, vectors, positions)
        return decoders.run(host, hidden, visibility, positions, cache)


def branches() -> tuple[Tensor, Visibility, Tensor]:
    """A trunk of four nodes and two branches of two from its second, at the same positions."""
    ids = torch.randint(3, N_WORDS, (1, 8), generator=torch.Generator().manual_seed(2))
    mask = torch.ones(8, 8, dtype=torch.bool).tril()
    mask[4:, 2:4] = False
    mask[6:, 4:6] = False
    return ids, Visibility(mask[None]), torch.tensor([[0, 1, 2, 3, 2, 3, 2, 3]])


@every_family
@both
@sides
def test_without_a_graph_the_host_is_unchanged_bitwise(
    family: str, attention: str, side: str
) -> None:
    host, (ids, mask) = tiny_decoder(family, attention), texts(side)
    positions = decoders.running_positions(mask)
    ours = states(host, ids, Visibility.causal(mask), positions)
    with torch.no_grad():
        theirs = host(
            ids, attention_mask=mask.long(), position_ids=positions, output_hidden_states=True
        )
    assert len(ours) == len(theirs.hidden_states)
    for mine, other in zip(ours, theirs.hidden_states, strict=True):
        assert torch.equal(mine[mask], other[mask])
    assert torch.equal(decoders.logits(host, ours[-1])[mask], theirs.logits[mask])
    assert all(bool(each.isfinite().all()) for each in ours)


@every_family
def test_eager_equals_sdpa_under_branches_and_repeated_positions(family: str) -> None:
    ids, visibility, positions = branches()
    one, other = (
        states(tiny_decoder(family, attention), ids, visibility, positions)[-1]
        for attention in ("sdpa", "eager")
    )
    torch.testing.assert_close(one, other, **CLOSE)
    causal = Visibility.causal(torch.ones(1, 8, dtype=torch.bool))
    plain = states(tiny_decoder(family), ids, causal, positions)[-1]
    assert float((one - plain)[:, 4:].abs().max()) > 0.1  # the mask is read


@every_family
@both
def test_a_branch_reads_as_the_text_it_continues(family: str, attention: str) -> None:
    host, (ids, visibility, positions) = tiny_decoder(family, attention), branches()
    together = states(host, ids, visibility, positions)[-1]
    for branch in ([0, 1, 2, 3], [0, 1, 4, 5], [0, 1, 6, 7]):
        alone = torch.ones(1, 4, dtype=torch.bool)
        text = states(host, ids[:, branch], Visibility.causal(alone), torch.arange(4)[None])[-1]
        torch.testing.assert_close(together[:, branch], text, **CLOSE)


@every_family
@both
def test_what_is_not_visible_has_no_influence(family: str, attention: str) -> None:
    host, (ids, visibility, positions) = tiny_decoder(family, attention), branches()
    before = states(host, ids, visibility, positions)[-1]
    changed = ids.clone()
    changed[0, 4] = 3 + (changed[0, 4] - 2) % (N_WORDS - 3)
    assert changed[0, 4] != ids[0, 4]
    after = states(host, changed, visibility, positions)[-1]
    sees = visibility.mask[0, :, 4]
    assert torch.equal(before[0, ~sees], after[0, ~sees])
    assert bool(((before - after)[0, sees].abs().amax(dim=-1) > 1e-4).all())


@every_family
@both
@sides
def test_a_batch_is_as_its_texts_alone(family: str, attention: str, side: str) -> None:
    host, (ids, mask) = tiny_decoder(family, attention), texts(side)
    positions = decoders.running_positions(mask)
    together = states(host, ids, Visibility.causal(mask), positions)[-1]
    for row, real in enumerate(mask):
        text, whole = ids[row, real][None], real[real][None]
        alone = states(
            host, text, Visibility.causal(whole), decoders.running_positions(whole)
        )[-1]  # fmt: skip
        torch.testing.assert_close(together[row, real], alone[0], **CLOSE)
        for pooling in ("last", "mean"):
            torch.testing.assert_close(
                decoders.sentence_vectors(together, mask, pooling)[row],
                {"last": alone[0, -1], "mean": alone[0].mean(dim=0)}[pooling],
                **CLOSE,
            )


@every_family
@both
@pytest.mark.parametrize("cut", [1, 3, 5, 7])
def test_cache_equals_no_cache(family: str, attention: str, cut: int) -> None:
    host, (ids, visibility, positions) = tiny_decoder(family, attention), branches()
    whole = states(host, ids, visibility, positions)[-1]
    cache = DynamicCache(config=host.config)
    first = Visibility(visibility.mask[:, :cut, :cut])
    start = states(host, ids[:, :cut], first, positions[:, :cut], cache)[-1]
    rest = states(host, ids[:, cut:], visibility, positions[:, cut:], cache)[-1]
    torch.testing.assert_close(torch.cat([start, rest], dim=1), whole, **CLOSE)
    assert cache.get_seq_length() == ids.shape[1]


@every_family
def test_generation_is_the_hosts_own(family: str) -> None:
    host, (ids, mask) = tiny_decoder(family), texts("left")
    n_new, options = 5, {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    written = host.generate(ids, attention_mask=mask.long(), **options)
    uncached = host.generate(ids, attention_mask=mask.long(), use_cache=False, **options)
    assert torch.equal(written, uncached)
    for row, real in enumerate(mask):
        text = ids[row, real][None]
        for _ in range(n_new):
            seen = torch.ones_like(text, dtype=torch.bool)
            last = states(
                host, text, Visibility.causal(seen), decoders.running_positions(seen)
            )[-1][:, -1]  # fmt: skip
            scores = decoders.logits(host, last)
            scores[:, host.config.eos_token_id] = -torch.inf  # five words are asked for
            text = torch.cat([text, scores.argmax(dim=-1, keepdim=True)], dim=1)
        assert torch.equal(text[0, -n_new:], written[row, -n_new:])


@every_family
def test_causal_loss_and_its_gradient_are_the_hosts(family: str) -> None:
    host, (ids, mask) = tiny_decoder(family), texts()
    labels = ids.masked_fill(~mask, IGNORE)
    positions = decoders.running_positions(mask)
    host_loss = host(ids, attention_mask=mask.long(), position_ids=positions, labels=labels).loss
    table = host.get_input_embeddings()
    hidden = decoders.embed(host, table(ids), positions)
    last = decoders.run(host, hidden, Visibility.causal(mask), positions)[-1]
    loss = decoders.causal_loss(decoders.logits(host, last), labels)
    torch.testing.assert_close(loss, host_loss)
    expected, actual = (torch.autograd.grad(each, table.weight)[0] for each in (host_loss, loss))
    torch.testing.assert_close(actual, expected, **CLOSE)


def test_faults_are_named() -> None:
    host, (ids, visibility, positions) = tiny_decoder("llama"), branches()
    with pytest.raises(BatchError, match="position 32 is beyond the host's 32"):
        states(host, ids, visibility, positions + N_POSITIONS - 3)
    with pytest.raises(BatchError, match="beyond the host's 4 positions"):
        states(tiny_decoder("mistral", sliding_window=4), ids, visibility, positions + 1)
    with pytest.raises(BatchError, match="over 8 nodes, but 0 are in the cache and 3 are new"):
        states(host, ids[:, :3], visibility, positions[:, :3])
    with pytest.raises(BatchError, match="nothing to predict"):
        decoders.causal_loss(torch.zeros(1, 3, 5), torch.tensor([[2, IGNORE, IGNORE]]))
    vectors, none = torch.zeros(1, 2, 4), torch.zeros(1, 2, dtype=torch.bool)
    with pytest.raises(BatchError, match="without a real node"):
        decoders.sentence_vectors(vectors, none)
    with pytest.raises(ConfigError, match="'first'; choose one of last, mean"):
        decoders.sentence_vectors(vectors, ~none, "first")  # type: ignore[arg-type]
    sizes = {"vocab_size": 30, "hidden_size": 16, "ffn_dim": 16, "num_attention_heads": 2}
    opt = AutoConfig.for_model("opt", num_hidden_layers=1, word_embed_proj_dim=16, **sizes)
    for other in (host.base_model, AutoModelForCausalLM.from_config(opt)):
        with pytest.raises(HostError, match="not a decoder host"):
            decoders.check_decoder(other)


@every_family
def test_a_folder_is_opened_whole_or_refused(family: str, tmp_path: Path) -> None:
    host, (ids, mask) = tiny_decoder(family), texts()
    host.save_pretrained(tmp_path)
    loaded = decoders.load_decoder(tmp_path)
    with torch.no_grad():
        ours, saved = (each(ids, attention_mask=mask.long()).logits for each in (loaded, host))
    assert torch.equal(ours[mask], saved[mask])
    for n_layers, fault in ((4, "lacks"), (2, "has no place for")):
        config = AutoConfig.from_pretrained(tmp_path, num_hidden_layers=n_layers)
        if hasattr(config, "layer_types"):
            config.layer_types = ["full_attention"] * n_layers
        config.save_pretrained(tmp_path)
        with pytest.raises(CheckpointError, match=fault):
            decoders.load_decoder(tmp_path)


@every_family
def test_a_cache_is_given_by_the_name_that_is_not_deprecated(
    family: str, recwarn: pytest.WarningsRecorder
) -> None:
    """transformers warns once in a process, so the name is looked at, too."""
    host, (ids, visibility, positions) = tiny_decoder(family), branches()
    states(host, ids, visibility, positions, DynamicCache(config=host.config))
    assert not [each for each in recwarn if "past_key_values" in str(each.message)]
    (layer, *_) = decoders.layers(host)
    (name,) = with_cache(layer, None)
    assert name == ("cache" if "cache" in inspect.signature(layer.forward).parameters else
                    "past_key_values")  # fmt: skip
