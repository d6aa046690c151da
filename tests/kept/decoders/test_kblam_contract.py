"""What holds for a KBLaM on every host that can read facts."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import DynamicCache

from kept import decoders
from kept.decoders.kblam.config import KBLaMConfig
from kept.decoders.kblam.files import (
    HEADER_FILE,
    WEIGHTS_FILE,
    load_kblam,
    load_released,
    released_name,
    save_kblam,
)
from kept.decoders.kblam.model import HOSTS, FactTokens, KBLaM
from kept.decoders.kblam.rectangular import projections, rotated
from kept.decoders.kblam.training import MicroBatch, new_optimiser, train_step
from kept.errors import BatchError, CheckpointError, ConfigError, HostError
from tests.kept.tiny_decoders import N_WORDS, texts, tiny_decoder

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
VECTOR, N_FACTS = 6, 5
every_host = pytest.mark.parametrize("family", HOSTS)
both = pytest.mark.parametrize("attention", ["sdpa", "eager"])
sides = pytest.mark.parametrize("side", ["left", "right"])
CONFIGS = {
    "plain": {},
    "rotated": {"separate_queries": False},
    "scaled": {"scale": 3.0},
    "pruned": {"top_k": 2},
    "pruned by node": {"top_k": 2, "top_k_by_node": True},
    "deep": {"mlp_depth": 1, "mlp_width": 7},
    "every layer": {"every": 1},
    "upper layers": {"every": 1, "first": 1},
}
every_config = pytest.mark.parametrize("name", CONFIGS)


def new_model(family: str = "llama", attention: str = "sdpa", **options: Any) -> KBLaM:
    """With queries that are no longer the host's."""
    config = KBLaMConfig(**{"vector_width": VECTOR, "every": 2, **options})
    model = KBLaM(tiny_decoder(family, attention), config).eval()
    draws = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for value in model.queries.parameters():
            value.add_(torch.randn(value.shape, generator=draws) * 0.3)
    return model


def vectors(n: int = N_FACTS) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(4)
    return torch.randn(n, VECTOR, generator=draws), torch.randn(n, VECTOR, generator=draws)


def facts_of(model: KBLaM, n: int = N_FACTS) -> FactTokens:
    with torch.no_grad():
        facts: FactTokens = model.encoder(*vectors(n))
    return facts


def logits(model: KBLaM, *inputs: Any) -> Tensor:
    with torch.no_grad():
        scores: Tensor = model(*inputs).logits
    return scores


@every_host
@both
@sides
def test_without_facts_the_host_is_unchanged_bitwise(
    family: str, attention: str, side: str
) -> None:
    model, (ids, mask) = new_model(family, attention), texts(side)
    positions = decoders.running_positions(mask)
    with torch.no_grad():
        of_host = model.host(ids, attention_mask=mask.long(), position_ids=positions)
    assert torch.equal(logits(model, ids, mask, None)[mask], of_host.logits[mask])


@every_host
@every_config
@sides
def test_a_batch_is_as_its_texts_alone(family: str, name: str, side: str) -> None:
    """Whatever the padding, its side and the texts beside it."""
    model, (ids, mask) = new_model(family, **CONFIGS[name]), texts(side)
    facts = facts_of(model)
    together = logits(model, ids, mask, facts)
    assert bool(together.isfinite().all())
    for row, real in enumerate(mask):
        alone = logits(model, ids[row, real][None], real[real][None], facts)
        torch.testing.assert_close(together[row, real], alone[0], **CLOSE)


@every_host
@every_config
@pytest.mark.parametrize("cut", [1, 5])
def test_cache_equals_no_cache(family: str, name: str, cut: int) -> None:
    """Pruning by a pass chooses by its words, so that it may read other facts: not compared."""
    options = {} if name == "pruned" else CONFIGS[name]
    model, (ids, mask) = new_model(family, **options), texts("left")
    facts, cache = facts_of(model), DynamicCache(config=model.host.config)
    whole = logits(model, ids, mask, facts)
    positions = decoders.running_positions(mask)
    start = logits(model, ids[:, :cut], mask[:, :cut], facts, positions[:, :cut], cache)
    rest = logits(model, ids[:, cut:], mask, facts, positions[:, cut:], cache)
    scores = torch.cat([start, rest], dim=1)
    torch.testing.assert_close(scores[mask], whole[mask], **CLOSE)


@every_host
@every_config
def test_the_order_of_facts_says_nothing(family: str, name: str) -> None:
    model, (ids, mask) = new_model(family, **CONFIGS[name]), texts()
    facts = facts_of(model)
    mixed = facts[torch.tensor([3, 1, 4, 0, 2])]
    scores, other = logits(model, ids, mask, facts), logits(model, ids, mask, mixed)
    torch.testing.assert_close(scores, other, **CLOSE)
    with_fewer_facts = logits(model, ids, mask, facts[torch.tensor([0, 1])])
    assert float((scores - with_fewer_facts)[mask].abs().max()) > 1e-3  # facts are read


@every_host
@every_config
def test_facts_of_one_sample_do_not_touch_another(family: str, name: str) -> None:
    model, (ids, mask) = new_model(family, **CONFIGS[name]), texts()
    facts = facts_of(model)
    rows = torch.tensor([[0, 1, 2], [3, 4, 0], [2, 2, 1]])
    together = logits(model, ids, mask, facts[rows])
    for row, facts_of_row in enumerate(rows):
        alone = logits(model, ids[row][None], mask[row][None], facts[facts_of_row])
        torch.testing.assert_close(together[row][mask[row]], alone[0][mask[row]], **CLOSE)


@every_host
@pytest.mark.parametrize("use_cache", [True, False])
def test_generation_is_the_best_word_by_word(family: str, use_cache: bool) -> None:
    model, (ids, mask) = new_model(family, scale=2.0), texts("left")
    facts, n_new = facts_of(model), 4
    written = model.generate(ids, mask, facts, n_new=n_new, use_cache=use_cache)
    for row, real in enumerate(mask):
        text = ids[row, real][None]
        for _ in range(n_new):
            seen = torch.ones_like(text, dtype=torch.bool)
            best = logits(model, text, seen, facts)[:, -1].argmax(dim=-1)
            text = torch.cat([text, best[:, None]], dim=1)
        assert torch.equal(text[0, -n_new:], written[row])
    right_mask = mask.flip(1)
    right_ids = torch.ones_like(ids)
    right_ids[right_mask] = ids[mask]
    other = model.generate(right_ids, right_mask, facts, n_new=n_new, use_cache=use_cache)
    assert torch.equal(written, other)
    end = int(written[0, 1])
    ended = model.generate(ids, mask, facts, n_new=n_new, end_id=end, use_cache=use_cache)
    stop = (written[0] == end).nonzero()[0, 0]
    assert bool((ended[0, stop:] == end).all())


@every_host
@sides
def test_a_prompt_may_be_read_without_facts(family: str, side: str) -> None:
    """As where the host has read all but its last node; of one node, pass and node choose alike."""
    (ids, mask), n_new = texts(side), 4
    options = {"scale": 2.0, "top_k": 2, "prompt_reads": False}
    model = new_model(family, top_k_by_node=True, **options)
    facts = facts_of(model)
    written = model.generate(ids, mask, facts, n_new=n_new)
    assert torch.equal(written, model.generate(ids, mask, facts, n_new=n_new, use_cache=False))
    assert torch.equal(written, new_model(family, **options).generate(ids, mask, facts, n_new=4))
    assert not torch.equal(
        written, new_model(family, scale=2.0).generate(ids, mask, facts, n_new=4)
    )
    for row, real in enumerate(mask):
        cache, seen = DynamicCache(config=model.host.config), real[real][None]
        text = ids[row, real][None]
        if text.shape[1] > 1:
            model.read(text[:, :-1], seen[:, :-1], None, cache=cache)
        step = text[:, -1:]
        for best in written[row]:
            step = logits(model, step, seen, facts, None, cache)[:, -1].argmax(-1, keepdim=True)
            assert step.item() == best
            seen = torch.nn.functional.pad(seen, (0, 1), value=True)


def loops(model: KBLaM, ids: Tensor, facts: FactTokens) -> Tensor:
    """Logits of one text without padding: one query, one head, one fact at a time."""
    host, config = model.host, model.config
    states = host.get_input_embeddings()(ids)
    positions = torch.arange(ids.shape[1])[None]
    mask = torch.ones_like(ids, dtype=torch.bool)
    rotary = host.base_model.rotary_emb(states, position_ids=positions)
    step = decoders.stepper(host, decoders.hosts.Visibility.causal(mask), positions)
    for number, layer in enumerate(decoders.layers(host)):
        if number % config.every:
            states = step(layer, states)
            continue
        attention: Any = layer.self_attn
        normed = layer.input_layernorm(states)
        query, key, value = projections(attention, normed)
        plain = model._own_query(number, attention, normed)
        query, key = rotated(query, rotary), rotated(key, rotary)
        width = attention.head_dim
        keys, values = facts.of_slice(number // config.every, model.n_slices, model.n_heads)
        read = torch.zeros(1, ids.shape[1], model.n_heads * width)
        for head in range(model.n_heads):
            columns = head * key.shape[1] // model.n_heads
            for position in range(ids.shape[1]):
                scores = [
                    float(plain[0, head, position] @ k) / math.sqrt(width) for k in keys[0, head]
                ]
                scores += [
                    float(query[0, head, position] @ key[0, columns, i]) / math.sqrt(width)
                    for i in range(position + 1)
                ]
                weights = torch.tensor(scores).softmax(0)
                seen = [*values[0, head], *value[0, columns, : position + 1]]
                total = sum(w * v for w, v in zip(weights, seen, strict=True))
                read[0, position, head * width : (head + 1) * width] = total
        states = states + attention.o_proj(read)
        states = states + layer.mlp(layer.post_attention_layernorm(states))
    return decoders.logits(host, decoders.finish(host, states))


@every_host
def test_loops_read_the_same(family: str) -> None:
    model, (ids, mask) = new_model(family, "eager"), texts()
    facts = facts_of(model)
    with torch.no_grad():
        expected = loops(model, ids[:1], facts)
    torch.testing.assert_close(logits(model, ids[:1], mask[:1], facts), expected, **CLOSE)


def test_pruned_facts_are_those_that_are_chosen() -> None:
    """With one reading layer, pruning is reading the chosen facts alone, in any order."""
    model, (ids, mask) = new_model(every=3, top_k=2), texts()
    facts = facts_of(model)
    with torch.no_grad():
        pruned = model(ids[:1], mask[:1], facts)
    whole = new_model(every=3)
    whole.load_own_state(model.own_state())
    chosen = facts[pruned.states.chosen[0][0].sort().values]
    torch.testing.assert_close(logits(whole, ids[:1], mask[:1], chosen), pruned.logits, **CLOSE)
    misaligned = new_model(every=3, top_k=2, misaligned_scores=True)
    misaligned.load_own_state(model.own_state())
    other = logits(misaligned, ids[:1], mask[:1], facts)
    assert set(pruned.states.chosen[0][0].tolist()) != {0, 1}
    assert float((other - pruned.logits).abs().max()) > 1e-4


@every_host
@sides
def test_layers_below_the_first_that_reads_need_not_be_run_again(family: str, side: str) -> None:
    model, (ids, mask) = new_model(family, every=1, first=2), texts(side)
    assert list(model.reading_layers) == [2]
    facts = facts_of(model)
    with torch.no_grad():
        whole = model.read(ids, mask, facts)
        entering = model.read(ids, mask, None).hidden_states[2]
        rest = model.read(ids, mask, facts, entering=entering)
    assert torch.equal(entering[mask], whole.hidden_states[2][mask])
    assert len(rest.hidden_states) == 2
    assert torch.equal(rest.hidden_states[-1][mask], whole.hidden_states[-1][mask])
    behind, cache = entering[:, 3:], DynamicCache(config=model.host.config)
    with torch.no_grad():  # what stands before is in the cache
        model.read(ids[:, :3], mask[:, :3], facts, cache=cache)
        rest = model.read(ids[:, 3:], mask, facts, cache=cache, entering=behind)
    actual, expected = rest.hidden_states[-1], whole.hidden_states[-1][:, 3:]
    torch.testing.assert_close(actual[mask[:, 3:]], expected[mask[:, 3:]], **CLOSE)
    with pytest.raises(BatchError, match="go with facts"):
        model.read(ids, mask, None, entering=entering)
    with pytest.raises(BatchError, match="nodes"):
        model.read(ids[:, 1:], mask[:, 1:], facts, entering=entering)


@given(n_facts=st.integers(1, 9), scale=st.sampled_from([0.5, 1.0, 20.0]))
@settings(max_examples=10, deadline=None)
def test_a_scale_makes_copies_of_facts_weigh_as_one(n_facts: int, scale: float) -> None:
    model, (ids, mask) = new_model(scale=scale), texts()
    fact = facts_of(model)[torch.tensor([0])]
    copies = fact[torch.zeros(n_facts, dtype=torch.long)]
    scores, one = logits(model, ids, mask, copies), logits(model, ids, mask, fact)
    torch.testing.assert_close(scores, one, **CLOSE)


# ---- training and files ----------------------------------------------------------------------
@every_host
def test_a_batch_is_learnt_and_the_host_stays(family: str, tmp_path: Path) -> None:
    model, (ids, mask) = new_model(family), texts()
    before = {name: value.clone() for name, value in model.host.state_dict().items()}
    ids, mask = ids[:2], mask[:2]
    rows = torch.tensor([[0, 1, 2], [3, 1, 2]])
    batch = MicroBatch(ids, mask, ids.masked_fill(~mask, -100), rows)
    optimiser, schedule = new_optimiser(model.train(), 40, learning_rate=0.05)
    losses = [train_step(model, [batch], vectors(), optimiser, schedule)[0] for _ in range(40)]
    assert losses[-1] < 0.7 * losses[0]
    assert not model.host.training
    for name, value in model.host.state_dict().items():
        assert torch.equal(value, before[name])
    save_kblam(tmp_path / "kblam", model)
    again = load_kblam(tmp_path / "kblam", tiny_decoder(family))
    facts = facts_of(model)
    assert torch.equal(logits(again, ids, mask, facts), logits(model.eval(), ids, mask, facts))


def test_only_what_reads_facts_is_trained() -> None:
    names = [name for name, _ in new_model().trained()]
    assert names == [
        "encoder.key_projector.weight", "encoder.key_projector.bias",
        "encoder.value_projector.weight", "encoder.value_projector.bias",
        "queries.0.weight", "queries.2.weight",
    ]  # fmt: skip
    rotated_queries = new_model(separate_queries=False, top_k=1)
    assert all(name.startswith("encoder.") for name, _ in rotated_queries.trained())
    assert len(rotated_queries.queries) == 2


def test_a_changed_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "kblam"
    save_kblam(folder, new_model())
    with pytest.raises(CheckpointError, match="belongs to a host of"):
        load_kblam(folder, tiny_decoder("llama", num_hidden_layers=4))
    weights = bytearray((folder / WEIGHTS_FILE).read_bytes())
    weights[-1] ^= 1
    (folder / WEIGHTS_FILE).write_bytes(weights)
    with pytest.raises(CheckpointError):
        load_kblam(folder, tiny_decoder("llama"))
    (folder / HEADER_FILE).unlink()
    with pytest.raises(CheckpointError):
        load_kblam(folder, tiny_decoder("llama"))


def test_released_weights_are_taken_whole() -> None:
    model, other = new_model(), new_model(every=2)
    with torch.no_grad():
        for value in model.encoder.parameters():
            value.mul_(2)
    state = {released_name(name): value for name, value in model.own_state().items()}
    state["model.layers.1.self_attn.score_shift"] = torch.zeros(2, 1)
    load_released(other, state)
    assert all(torch.equal(v, other.own_state()[k]) for k, v in model.own_state().items())
    for changed, fault in (
        ({k: v for k, v in state.items() if "projector_k" not in k}, "lacks projector_k.weight"),
        (state | {"nonsense": torch.zeros(1)}, "no place for nonsense"),
        (state | {"projector_k.bias": torch.zeros(1)}, r"projector_k.bias is \(1,\)"),
    ):
        with pytest.raises(CheckpointError, match=fault):
            load_released(other, changed)
    with pytest.raises(CheckpointError, match="not a tensor of a KBLaM"):
        released_name("lm_head.weight")


def test_faults_are_named() -> None:
    model, (ids, mask) = new_model(), texts()
    facts = facts_of(model)
    with pytest.raises(HostError, match="Llama-shaped"):
        KBLaM(tiny_decoder("gpt2"), model.config)
    with pytest.raises(BatchError, match="for a batch of 3"):
        model(ids, mask, facts[torch.zeros(2, 1, dtype=torch.long)])
    with pytest.raises(BatchError, match="which is not 3 slices"):
        FactTokens(facts.keys[:, :-1], facts.values[:, :-1]).of_slice(0, 3, 2)
    with pytest.raises(BatchError, match="no facts"):
        FactTokens(facts.keys[:0], facts.values[:0])
    with pytest.raises(BatchError, match="must both be"):
        FactTokens(facts.keys, facts.values[0])
    with pytest.raises(ConfigError, match="in one of the two alone"):
        model.load_own_state({})
    with pytest.raises(ConfigError, match=r"every 0: 1 or more.*; scale -1\.0"):
        KBLaMConfig(vector_width=1, every=0, scale=-1.0)
    with pytest.raises(ConfigError, match="first 3: below the host's 3 layers"):
        new_model(first=3)
    with pytest.raises(ConfigError, match="top_k_by_node: needs top_k"):
        new_model(top_k_by_node=True)
    for fault in ({"scale": 2.0}, {"misaligned_scores": True}):
        with pytest.raises(ConfigError, match="without separate_queries"):
            KBLaMConfig(vector_width=1, separate_queries=False, **fault)
    with pytest.raises(ConfigError, match="0 steps"):
        new_optimiser(model, 0)
    with pytest.raises(BatchError, match="of one shape"):
        MicroBatch(ids, mask, ids[:2], torch.zeros(3, 1, dtype=torch.long))
    labels = torch.full_like(ids, -100)
    batch = MicroBatch(ids, mask, labels, torch.zeros(3, 1, dtype=torch.long))
    with pytest.raises(BatchError, match="text 0 has no label"):
        train_step(model, [batch], vectors(), *new_optimiser(model, 1))
    assert dataclasses.asdict(model.config)["every"] == 2
    assert int(ids.max()) < N_WORDS
