"""The story writer of Guan et al. 2020 against numbers of its released program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from kept.decoders.generators.guan import (
    StoryBatch,
    StoryWriter,
    confusion,
    converted,
    load_released,
    story_batch,
    story_losses,
    top_k,
    word_loss,
)
from kept.decoders.generators.stories import (
    Story,
    repeated,
    replaced,
    sentence_ids,
    shuffled,
    story_ids,
)

METHOD = "commonsense_gpt2"
ATOL, ATOL_LOGITS = 1e-5, 1e-4
KINDS = ("roc", "roc_shuffle", "roc_replace", "roc_repeat")
"""Names of the kinds of stories in the file, in the order of `LABELS`."""


def batches_of(folder: Path) -> Iterator[str]:
    names = load_file(folder / "inputs.safetensors")
    yield from sorted(name.split(".")[0] for name in names if name.endswith(".model_input"))


PARAMETERS = {"name": batches_of}


@pytest.fixture(scope="module")
def name(request: pytest.FixtureRequest) -> str:
    result: str = request.param
    return result


@dataclass(frozen=True, eq=False)
class Golden:
    folder: Path

    def read(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_text("utf-8"))

    def load(self, name: str) -> dict[str, Tensor]:
        return load_file(self.folder / f"{name}.safetensors")

    @cached_property
    def config(self) -> dict[str, Any]:
        result: dict[str, Any] = self.read("config")
        return result

    @cached_property
    def model(self) -> StoryWriter:
        config = self.config
        host = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=config["n_vocab"], n_positions=config["n_ctx"],
                n_embd=config["n_embd"], n_head=config["n_head"], n_layer=config["n_layer"],
                layer_norm_epsilon=config["ln_eps"], activation_function="gelu_new",
                bos_token_id=config["pad_id"], eos_token_id=config["pad_id"],
            )
        )  # fmt: skip
        model = StoryWriter(host.eval())
        load_released(model, self.load("state_dict"))
        return model.eval()

    def batch(self, name: str) -> StoryBatch:
        inputs = self.load("inputs")
        mask = (
            torch.arange(inputs[f"{name}.story"].shape[1]) < inputs[f"{name}.story_length"][:, None]
        )
        labels = inputs.get(f"{name}.label", torch.zeros(len(mask), dtype=torch.long))
        return StoryBatch(inputs[f"{name}.model_input"], inputs[f"{name}.story"], mask, labels)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        merges = [tuple(pair) for pair in self.config["merges"]]
        symbols = [*self.config["byte_symbols"], *("".join(pair) for pair in merges), "<|end|>"]
        assert symbols.index("<|end|>") == self.config["pad_id"]
        inner = Tokenizer(models.BPE({piece: i for i, piece in enumerate(symbols)}, merges))
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
        return PreTrainedTokenizerFast(tokenizer_object=inner)


@pytest.fixture(scope="module")
def golden(folder: Path) -> Golden:
    return Golden(folder)


# ---- stories -------------------------------------------------------------------------------------
def test_word_pieces(golden: Golden, compared: Any) -> None:
    data = golden.read("preprocessing")
    for check in data["bpe_checks"]:
        compared.equal("guan pieces", golden.tokenizer.encode(check["text"]), check["ids"])
    for sentence, ids in zip(data["triple_lines"], data["triple_ids"], strict=True):
        compared.equal("guan triples", golden.tokenizer.encode(sentence), ids)
    for kind in KINDS:
        for story, ids in zip(data[kind], data[f"{kind}_ids"], strict=True):
            actual = sentence_ids(golden.tokenizer, tuple(story))
            compared.equal("guan sentences", actual, ids)


def test_fakes(golden: Golden, compared: Any) -> None:
    """Each fake is what our functions make with the choice that was drawn."""
    data = golden.read("preprocessing")
    compared.equal("guan labels", {kind: i for i, kind in enumerate(KINDS)},
                   data["label_ids"])  # fmt: skip
    stories = [tuple(story) for story in data["roc"]]
    for number, story in enumerate(stories):
        result = tuple(data["roc_shuffle"][number])
        compared.equal("guan shuffled", shuffled(story, [story.index(s) for s in result]), result)
        result = tuple(data["roc_replace"][number])
        possible = {
            replaced(story, sentence, other) for sentence in places(story) for other in stories
        }
        compared.equal("guan replaced", result in possible, True)
        result = tuple(data["roc_repeat"][number])
        compared.equal("guan repeated", result in {repeated(story, p) for p in places(story)}, True)


def places(story: Story) -> range:
    return range(1, len(story))


def test_batches(golden: Golden, name: str, compared: Any) -> None:
    """Shifted inputs, lengths and padding, from the texts alone."""
    expected = golden.batch(name)
    texts = [row[: int(n) - 1].tolist() for row, n in
             zip(expected.targets, expected.mask.sum(dim=1), strict=True)]  # fmt: skip
    result = story_batch(texts, golden.config["pad_id"], expected.labels.tolist())
    compared.equal("guan inputs", result.inputs.tolist(), expected.inputs.tolist())
    compared.equal("guan targets", result.targets.tolist(), expected.targets.tolist())
    compared.equal("guan mask", result.mask.tolist(), expected.mask.tolist())
    data = golden.read("preprocessing")
    whole = {tuple(story_ids(golden.tokenizer, tuple(s))) for k in KINDS for s in data[k]}
    whole |= {tuple(ids) for ids in data["triple_ids"]}
    assert all(tuple(text) in whole for text in texts)


# ---- network -------------------------------------------------------------------------------------
def test_states_and_scores(golden: Golden, name: str, compared: Any) -> None:
    outputs = golden.load("outputs")
    with torch.no_grad():
        actual = golden.model(golden.batch(name))
    compared.close("guan states", actual.states, outputs[f"{name}.hidden_state"], atol=ATOL)
    for key, value, atol in (("logits", actual.logits, ATOL_LOGITS),
                             ("class_logits", actual.class_logits, ATOL)):  # fmt: skip
        if f"{name}.{key}" in outputs:
            compared.close(f"guan {key}", value, outputs[f"{name}.{key}"], atol=atol)


def test_losses(golden: Golden, name: str, compared: Any) -> None:
    report, batch = golden.read("losses")[name], golden.batch(name)
    with torch.no_grad():
        output = golden.model(batch)
    losses = story_losses(output, batch, golden.config["class_weight"])
    actual = {
        "lm_loss_all_rows": word_loss(output.logits, batch), "total": losses.total,
        "lm_loss_true_rows": losses.words, "class_loss_sum": losses.classes,
        "confusion_flat": confusion(output, batch).flatten(),
    }  # fmt: skip
    for key, value in actual.items():
        if key in report:
            compared.close(f"guan {key}", value, report[key], atol=ATOL)


@pytest.mark.parametrize("which", ["lm", "total"])
def test_gradients(golden: Golden, name: str, which: str, compared: Any) -> None:
    model, batch = golden.model, golden.batch(name)
    prefix = f"{name}.{which}."
    stored = {key.removeprefix(prefix): value for key, value in golden.load("grads").items()
              if key.startswith(prefix)}  # fmt: skip
    if not stored:
        assert which == "total", "every batch has gradients of the word loss"
        assert "total" not in golden.read("losses")[name]
        return
    model.zero_grad()
    slices: list[Tensor] = []
    hook = model.host.transformer.drop.register_full_backward_hook(
        lambda module, into, out: slices.append(into[0])
    )
    output = model(batch)
    hook.remove()
    losses = story_losses(output, batch, golden.config["class_weight"])
    loss = losses.total if which == "total" else word_loss(output.logits, batch)
    loss.backward()
    gradients = {
        key: value.grad for key, value in model.named_parameters() if value.grad is not None
    }
    for key, expected in converted(stored).items():
        compared.close("guan gradient", gradients[key], expected, atol=ATOL)
    if which == "total":
        data = golden.read("losses")[name]
        norm = torch.stack([g.norm() for g in gradients.values()]).norm()
        compared.close("guan norm", norm, data["global_norm_of_dense_gradients"], atol=ATOL)
        gradients["host.transformer.wpe.weight"] = slices[0]  # each reading of a row counts, there
        norm = torch.stack([g.norm() for g in gradients.values()]).norm()
        compared.close("guan clipping", norm, data["global_norm_used_for_clipping"], atol=ATOL)


def test_cache(golden: Golden, compared: Any) -> None:
    expected = golden.load("outputs")["cache.present_first4"]
    ids = golden.batch("story").inputs[:, : expected.shape[4]]
    with torch.no_grad():
        cache = golden.model.host(input_ids=ids, use_cache=True).past_key_values
    for number in range(expected.shape[1]):
        layer = cache.layers[number]
        actual = torch.stack([layer.keys, layer.values], dim=1)
        compared.close("guan cache", actual, expected[:, number], atol=ATOL)


def test_top_k(golden: Golden, compared: Any) -> None:
    logits = golden.load("inputs")["top_k.logits"]
    for key, expected in golden.load("outputs").items():
        if key.startswith("top_k.k"):
            actual = top_k(logits, int(key.removeprefix("top_k.k")))
            compared.close("guan top-k", actual, expected, atol=0)
