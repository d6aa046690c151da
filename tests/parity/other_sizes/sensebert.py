"""SenseBERT of width 12 with four rows of seven words, two more word pieces and one sense more."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from kept import hosts
from kept.batches import IGNORE
from kept.layers.vocabularies import allowed_losses
from tests.parity import test_sensebert as parity
from tests.parity.other_sizes import tensors

WIDTH, N_ROWS, LENGTH = 12, 4, 7


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    for name, more in (("vocab", ["more", "words"]), ("supersense_vocab", ["verb.of_our_own"])):
        with (folder / f"{name}.txt").open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in more))
    n_words, n_senses = (len(parity.lines(folder, n)) for n in ("vocab", "supersense_vocab"))
    changed = {
        "vocab_size": n_words, "supersenses": n_senses, "hidden_size": WIDTH,
        "batch": N_ROWS, "length": LENGTH,
    }  # fmt: skip
    tensors.write(tensors.read(folder, "config") | changed, folder, "config")
    data = tensors.read(folder, "tokenizer")
    data["cases"] = data["cases"][:-1]
    data["batch"] = {k: v[:2] for k, v in data["batch"].items()}
    tensors.write(data, folder, "tokenizer")
    draws = torch.Generator().manual_seed(1)
    old = tensors.load(folder, "restated_parameters")
    allowed = F.pad(old["M"], (0, n_senses - old["M"].shape[1], 0, n_words - len(old["M"])))
    shapes = {"P": (LENGTH, WIDTH), "S": (n_senses, WIDTH), "W": (n_words, WIDTH)}
    result = {name: torch.randn(shape, generator=draws) for name, shape in shapes.items()}
    result |= {"M": allowed, "sense_bias": torch.randn(n_senses, generator=draws)}
    result["word_bias"] = torch.randn(n_words, generator=draws)
    tensors.store(result, folder, "restated_parameters")
    inputs(folder, allowed, draws)
    outputs(folder)


def inputs(folder: Path, allowed: Tensor, draws: torch.Generator) -> None:
    """Every word of one row may be asked; what is asked is hidden by [MASK]."""
    ids = torch.randint(5, len(allowed), (N_ROWS, LENGTH), generator=draws)
    ids[0] = allowed.any(1).nonzero()[:LENGTH, 0]
    is_masked = torch.rand((N_ROWS, LENGTH), generator=draws) < 0.5
    labels = ids.masked_fill(~is_masked, IGNORE)
    result = {
        "hidden": torch.randn((N_ROWS, LENGTH, WIDTH), generator=draws), "labels": labels,
        "original_ids": ids, "input_ids": ids.masked_fill(is_masked, 4),
        "allowed_positions": (is_masked & allowed.any(1)[ids]).long(),
    }  # fmt: skip
    tensors.store(result, folder, "restated_inputs")


def outputs(folder: Path) -> None:
    model, inputs_ = parity.new_model(folder), parity.load(folder, "inputs")
    parameters, hidden = parity.load(folder, "parameters"), inputs_["hidden"].requires_grad_()
    senses, words = model.objectives["senses"], model.objectives["mlm"]
    vectors, table = model.encoder.senses.vectors.weight, hosts.word_table(model.encoder.host)
    scores, logits = senses.head(hidden, vectors), words.logits(hidden, table.weight)
    labels, rows = inputs_["labels"], parameters["M"]
    allowed = parity.slots(rows[labels.clamp(min=0).flatten()], IGNORE)
    allowed[labels.flatten() == IGNORE] = IGNORE
    together, each = allowed_losses(scores.flatten(0, 1), allowed)
    counted = (allowed != IGNORE).any(1)
    means = together[counted].mean(), each[counted].mean()
    of_words = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE)
    sums(folder, model, inputs_)
    loss = means[0] + means[1]
    result = parity.load(folder, "outputs") | {
        "sense_logits": scores, "sense_logits_no_bias": scores - senses.head.bias,
        "word_logits": logits, "per_position.allowed": together.view(labels.shape),
        "per_position.regularisation": each.view(labels.shape),
        "loss.allowed_mean": means[0], "loss.regularisation_mean": means[1], "loss.sense": loss,
        "loss.words_mean": of_words, "loss.total": loss + of_words,
    }  # fmt: skip
    tensors.store(result, folder, "restated_outputs")
    wanted = hidden, vectors, senses.head.bias
    gradients = torch.autograd.grad(loss, wanted)
    names = ("hidden", "S_from_sense_loss", "sense_bias")
    tensors.store(dict(zip(names, gradients, strict=True)), folder, "restated_grads")


def sums(folder: Path, model: torch.nn.Module, inputs_: dict[str, Tensor]) -> None:
    """The inputs by the paper's own product with the matrix of allowed senses."""
    parameters, ids = parity.load(folder, "parameters"), inputs_["input_ids"]
    table = parameters["W"] + parameters["M"] @ parameters["S"]
    result = parity.load(folder, "outputs")
    result["embedding_input"] = table[ids] + parameters["P"][: ids.shape[1]]
    tensors.store(result, folder, "restated_outputs")
