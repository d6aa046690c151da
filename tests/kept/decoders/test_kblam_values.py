"""Values that say their words: what a layer adds that looks at a fact, what a host says then."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kept.decoders import layers, logits
from kept.decoders.kblam.config import KBLaMConfig
from kept.decoders.kblam.knowledge_base import KnowledgeBase, unit_vectors
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.training import new_optimiser
from kept.decoders.kblam.values import HostWords, write_words
from kept.decoders.kblam.wording import Fact
from kept.errors import ConfigError
from tests.kept.tiny_chat import chat_tokenizer
from tests.kept.tiny_decoders import tiny_decoder

VALUES = ("golf", "chess", "a quiet place")
WIDTH = 16


def parts(**options: int) -> tuple[KBLaM, HostWords]:
    tokenizer = chat_tokenizer([f" {value}" for value in VALUES])
    host = tiny_decoder("llama", vocab_size=len(tokenizer))
    torch.manual_seed(0)
    config = {"vector_width": 4, "value_width": WIDTH, "every": 1, "first": 1, **options}
    return KBLaM(host, KBLaMConfig(**config)), HostWords(host, tokenizer)


def test_words_of_a_host_are_its_embeddings_without_their_mean() -> None:
    model, words = parts()
    vectors = words.encode(VALUES)
    assert vectors.shape == (3, words.width) == (3, WIDTH)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    table = model.host.get_output_embeddings().weight.detach()
    centred = table - table.mean(dim=0)
    ids = words.tokenizer(" golf", add_special_tokens=False)["input_ids"]
    np.testing.assert_allclose(vectors[0], centred[ids[0]] / centred[ids[0]].norm(), rtol=1e-4)
    pieces = words.tokenizer(" a quiet place", add_special_tokens=False)["input_ids"]
    several = sum(centred[piece] / 2**position for position, piece in enumerate(pieces))
    np.testing.assert_allclose(vectors[2], several / several.norm(), rtol=1e-4)


def test_a_layer_that_looks_at_a_fact_adds_its_words() -> None:
    model, words = parts()
    of_values = unit_vectors(VALUES, words)
    write_words(model, {1: 5.0, 2: 7.0}, of_values[1], share=0.5)
    _, values = model.encoder(torch.zeros(3, 4), of_values).of_slice(
        1, model.n_slices, model.n_heads
    )
    added = layers(model.host)[2].self_attn.o_proj(values[0].transpose(0, 1).flatten(1)).detach()
    wanted = 7.0 * (of_values + 0.5 * of_values[1]) / WIDTH**0.5
    assert float((added - wanted).norm() / wanted.norm()) < 0.05


def test_a_host_says_the_value_of_the_only_fact() -> None:
    model, words = parts()
    write_words(model, {1: 200.0, 2: 200.0})
    for value in VALUES[:2]:
        base = KnowledgeBase(
            (Fact("x", "y", value),), torch.zeros(1, 4), unit_vectors([value], words)
        )
        ids = torch.tensor([[3, 4]])
        with torch.no_grad():
            read = model.read(ids, torch.ones_like(ids, dtype=torch.bool), base.tokens(model))
            token = int(logits(model.host, read.hidden_states[-1])[0, -1].argmax())
        assert words.tokenizer.decode([token]).strip() == value


def test_what_does_not_fit_is_refused() -> None:
    model, _ = parts()
    with pytest.raises(ConfigError, match=r"gains of layers \[1\], not of \[1, 2\]"):
        write_words(model, {1: 1.0})
    for options in ({"value_width": 8}, {"mlp_depth": 1}):
        model, _ = parts(**options)
        with pytest.raises(ConfigError, match="need value_width 16 and mlp_depth 0"):
            write_words(model, {1: 1.0, 2: 1.0})


def test_values_have_a_learning_rate_of_their_own() -> None:
    model, _ = parts()
    optimiser, schedule = new_optimiser(model, 4, learning_rate=0.1, value_rate=0.5)
    of_values = set(map(id, model.encoder.value_projector.parameters()))
    others, values = optimiser.param_groups
    assert {id(p) for p in values["params"]} == of_values
    assert not of_values & {id(p) for p in others["params"]}
    assert len(others["params"]) + len(values["params"]) == len(list(model.trained()))
    assert (others["lr"], values["lr"]) == (0.1, 0.5)
    optimiser.step()
    schedule.step()
    assert others["lr"] / values["lr"] == pytest.approx(0.2)


def test_facts_enter_up_to_the_last_layer_that_reads() -> None:
    model, _ = parts(last=1)
    assert list(model.reading_layers) == [1]
    assert model.n_slices == 1
    with pytest.raises(ConfigError, match="last 0: 1 or more"):
        KBLaMConfig(vector_width=1, first=1, last=0)
