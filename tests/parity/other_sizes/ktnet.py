"""KT-NET with one layer of width 20, two heads, more words, wider concepts, one more row."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from kept.batches import NONE, PAD_ROW
from kept.graphs.views.ktnet import CONCEPTS
from kept.heads.model import task_loss
from kept.tasks.kinds import SPAN, START_END
from tests.parity import test_ktnet as parity
from tests.parity.other_sizes import tensors

BERT = {"hidden_size": 20, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 53}
SIZES = {12: 20, 48: 36, 17: 27, 102: 162, 5: 7, 40: 53, 10: 12}
N_CONCEPTS, CONCEPT_WIDTH = 11, 7


def make(folder: Path) -> None:
    """Change the committed files in `folder`."""
    config = tensors.read(folder, "config")
    config["bert"] |= BERT
    inputs = tensors.one_more(tensors.load(folder, "inputs"))
    inputs["concept_ids"][-1] = (inputs["concept_ids"][-1] > 0) * N_CONCEPTS
    config |= {
        "batch": len(inputs["src_ids"]), "concept_dim": CONCEPT_WIDTH,
        "n_concepts_without_pad": N_CONCEPTS,
    }  # fmt: skip
    tensors.write(config, folder, "config")
    tensors.store(inputs, folder, "inputs")
    old = tensors.load(folder, "state_dict")
    few = {k: v for k, v in old.items() if not k.startswith("encoder_layer_1_")}
    state = tensors.weights(few, SIZES, n_layers=1)
    state |= {name: 1 + value for name, value in state.items() if name.endswith("_scale")}
    state[parity.TABLE][0] = 0
    concepts(folder, state[parity.TABLE])
    tensors.store(state, folder, "state_dict")
    outputs(folder)


def concepts(folder: Path, table: Tensor) -> None:
    """The lines of the file of vectors, and the names by number."""
    names = [f"concept_{i}" for i in reversed(range(len(table) - 1))]
    lines = [
        f"{name} {' '.join(map(str, row))}"
        for name, row in zip(names, table[1:].tolist(), strict=True)
    ]
    report = {"embedding_file_lines": lines, "id2concept": ["<pad_concept>", *names]}
    tensors.write(report, folder, "concepts")


def outputs(folder: Path) -> None:
    """What our own layers say, and the gradients of the loss."""
    model, batch = parity.new_model(folder), parity.batch_of(folder, parity.graph_of(folder))
    encoder, ids = model.encoder, batch.extra_ids[CONCEPTS]
    output = model(batch)
    states, mask = output.hidden_states[-2], batch.visibility.mask
    is_concept = ids != NONE
    concepts = encoder.concept_vectors(ids.where(is_concept, PAD_ROW))
    joint, query = encoder.with_concepts(states, ids), encoder.memory.projection(states)
    scores = (concepts @ query[..., None])[..., 0]
    sentinel = (query @ encoder.memory.sentinel)[..., None]
    result = {
        "bert_output": states, "memory_length": is_concept.sum(-1, keepdim=True).float(),
        "memory_score_unmasked": torch.cat([sentinel, scores], 2),
        "memory_attention": encoder.memory.attention(states, concepts, is_concept),
        "memory_output": joint, "self_matching_attention": encoder.matching.attention(joint, mask),
        "self_matching_output": encoder.matching(joint, mask),
        "total_loss": output.losses["class"],
    }  # fmt: skip
    for i, name in enumerate(START_END):
        logits = output.class_logits[..., i : i + 1]
        result[f"{name}_logits"] = logits[..., 0]
        result[f"{name}_loss"] = task_loss(SPAN, logits, batch.labels[:, i : i + 1])
    tensors.store(result, folder, "outputs")
    output.losses["class"].backward()
    parameters = dict(model.named_parameters())
    state, grads = tensors.load(folder, "state_dict"), {}
    for name, value in state.items():
        if name != parity.TABLE:
            gradient = parameters[parity.ours(name)].grad
            rows = len(parity.turned(name, value))
            grads[name] = parity.turned(name, gradient[:rows])
    tensors.store(grads, folder, "grads")
