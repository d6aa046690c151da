"""The story writer as a model: padding, learning, sampling, loading."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from kept.decoders.generators.guan import (
    CUT,
    StoryBatch,
    StoryTrainer,
    StoryWriter,
    confusion,
    load_released,
    perplexity,
    story_batch,
    story_losses,
    top_k,
    word_loss,
    write,
)
from kept.errors import BatchError, CheckpointError, ConfigError, HostError, TrainingError
from kept.randomness import torch_generator

PAD, N_WORDS = 19, 20


def tiny(family: str) -> PreTrainedModel:
    torch.manual_seed(0)
    if family == "gpt2":
        return GPT2LMHeadModel(
            GPT2Config(
                vocab_size=N_WORDS, n_positions=16, n_embd=16, n_layer=2, n_head=2,
                initializer_range=0.3, bos_token_id=PAD, eos_token_id=PAD,
                resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
            )
        ).eval()  # fmt: skip
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=N_WORDS, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=24, max_position_embeddings=16, initializer_range=0.3,
            bos_token_id=PAD, eos_token_id=PAD,
        )
    ).eval()  # fmt: skip


@pytest.fixture(params=["gpt2", "llama"])
def model(request: pytest.FixtureRequest) -> StoryWriter:
    torch.manual_seed(1)
    return StoryWriter(tiny(request.param)).eval()


TEXTS = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]


def test_padding_changes_nothing(model: StoryWriter) -> None:
    together = story_batch(TEXTS, PAD, [0, 1, 0])
    with torch.no_grad():
        output = model(together)
        for i, text in enumerate(TEXTS):
            alone = model(story_batch([text], PAD))
            n = len(text) + 1
            torch.testing.assert_close(output.logits[i, :n], alone.logits[0])
            torch.testing.assert_close(output.class_logits[i], alone.class_logits[0])


def test_losses_against_loops(model: StoryWriter) -> None:
    batch = story_batch(TEXTS, PAD, [0, 3, 0])
    with torch.no_grad():
        output = model(batch)
        losses = story_losses(output, batch)
    words, n = 0.0, 0
    for i in (0, 2):
        for j, expected in enumerate([*TEXTS[i], PAD]):
            words -= float(output.logits[i, j].log_softmax(-1)[expected])
            n += 1
    label = [0, 3, 0]
    classes = -sum(float(output.class_logits[i].log_softmax(-1)[label[i]]) for i in range(3))
    assert float(losses.words) == pytest.approx(words / n, rel=1e-5)
    assert float(losses.classes) == pytest.approx(classes, rel=1e-5)
    assert float(losses.total) == pytest.approx(words / n + 0.05 * classes, rel=1e-5)
    rows = confusion(output, batch)
    assert rows[0].sum() == pytest.approx(1)
    assert rows[1].tolist() == [0, 0, 0, 0]


def test_fakes_alone_teach_no_words(model: StoryWriter) -> None:
    batch = story_batch(TEXTS, PAD, [1, 2, 3])
    losses = story_losses(model(batch), batch)
    assert float(losses.words.detach()) == 0
    losses.total.backward()
    head = model.host.get_output_embeddings().weight
    if head is not model.host.get_input_embeddings().weight:
        assert head.grad is None or not head.grad.any()


def test_one_batch_is_learned(model: StoryWriter) -> None:
    batch = story_batch(TEXTS, PAD, [0, 1, 2])
    trainer = StoryTrainer(model, learning_rate=1e-2)
    for _ in range(80):
        trainer.step(batch, multi_task=True)
    assert trainer.losses[-1] < 0.3 * trainer.losses[0]
    model.eval()
    assert model(batch).class_logits.argmax(dim=1).tolist() == [0, 1, 2]


def test_the_rate_falls_when_a_loss_exceeds_the_last_three(model: StoryWriter) -> None:
    trainer = StoryTrainer(model)
    for loss in (3.0, 2.0, 1.0, 2.5, 3.5):
        trainer._slow_down(loss)
    assert trainer.optimiser.param_groups[0]["lr"] == pytest.approx(1e-4 * 0.95)


def test_a_loss_that_is_not_finite_stops(model: StoryWriter) -> None:
    with torch.no_grad():
        model.host.get_input_embeddings().weight[1] = math.inf
    with pytest.raises(TrainingError, match="step 0"):
        StoryTrainer(model).step(story_batch(TEXTS, PAD), multi_task=False)


def test_writing_with_a_cache_is_writing_without(model: StoryWriter) -> None:
    """The same draws over full forwards give the same words."""
    tokens = write(model, [1, 2], PAD, torch_generator(0, "t"), n_tokens=6, temperature=1.3, k=5)
    draws, ids, expected = torch_generator(0, "t"), [PAD, 1, 2], list[int]()
    while len(expected) < 6:
        with torch.no_grad():
            scores = model.host(input_ids=torch.tensor([ids])).logits[0, -1] / 1.3
        token = int(torch.multinomial(top_k(scores, 5).softmax(-1), 1, generator=draws))
        if token == PAD:
            break
        expected.append(token)
        ids.append(token)
    assert tokens == expected
    assert len(write(model, [1] * 14, PAD, torch_generator(0, "u"))) <= 1


def test_top_one_is_greedy_and_cuts_the_rest() -> None:
    scores = torch.randn(3, 9, generator=torch_generator(0, "scores"))
    kept = top_k(scores, 1) > CUT
    assert kept.sum(dim=1).tolist() == [1, 1, 1]
    assert kept.int().argmax(dim=1).tolist() == scores.argmax(dim=1).tolist()
    torch.testing.assert_close(top_k(scores, 99), scores)


def test_perplexity_is_over_all_targets(model: StoryWriter) -> None:
    batches = [story_batch(TEXTS[:1], PAD), story_batch(TEXTS[1:], PAD)]
    with torch.no_grad():
        whole = word_loss(model(story_batch(TEXTS, PAD)).logits, story_batch(TEXTS, PAD))
    assert perplexity(model, batches) == pytest.approx(math.exp(float(whole)), rel=1e-5)
    with pytest.raises(BatchError, match="no text"):
        perplexity(model, [])


def test_what_is_refused(model: StoryWriter) -> None:
    with pytest.raises(BatchError, match="at least one text"):
        story_batch([], PAD)
    with pytest.raises(BatchError, match=r"labels \[4\]"):
        story_batch([[1]], PAD, [4])
    with pytest.raises(BatchError, match="labels for"):
        story_batch([[1]], PAD, [0, 1])
    good = story_batch([[1]], PAD)
    with pytest.raises(BatchError, match="differ in shape"):
        StoryBatch(good.inputs[:, :1], good.targets, good.mask, good.labels)
    with pytest.raises(ConfigError, match="top-k"):
        top_k(torch.zeros(2), 0)
    with pytest.raises(ConfigError, match="temperature"):
        write(model, [1], PAD, torch_generator(0, "w"), temperature=0)
    with pytest.raises(HostError, match="not a decoder"):
        StoryWriter(model.host.base_model)


def test_a_released_checkpoint_is_whole_and_nothing_else(model: StoryWriter) -> None:
    with pytest.raises(CheckpointError, match="model/nonsense"):
        load_released(model, {"model/nonsense": torch.zeros(1)})
    with pytest.raises(CheckpointError, match="missing"):
        load_released(model, {"model/wpe": torch.zeros(16, 16)})
