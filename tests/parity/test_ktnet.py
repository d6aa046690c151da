"""KT-NET's two layers, scores, losses, gradients and concept vectors against the original's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModel

from kept.batches import N_SPECIAL_ROWS, NONE, PAD_ROW, KnowledgeBatch, Visibility
from kept.encoders.ktnet import KTNET
from kept.graphs.views.ktnet import CONCEPTS
from kept.heads.model import KnowledgeForTask, task_loss
from kept.tasks.kinds import SPAN, START_END
from kept.vectors import ENTITY_PREFIX, Wikipedia2VecFile
from kg_loaders import KnowledgeGraph, Text, TextKind, graph_from_records

METHOD = "ktnet"
ATOL = RTOL = 1e-5
TABLE = "concept_emb_mat"
OURS = (
    (r"(w|p|s)\w+_embedding", ""),
    (r"pre_encoder_layer_norm_(scale|bias)", r"encoder.host.embeddings.LayerNorm.\1"),
    (r"encoder_layer_(\d+)_multi_head_att_output_fc\.(\w)_0",
     r"encoder.host.encoder.layer.\1.attention.output.dense.\2"),
    (r"encoder_layer_(\d+)_multi_head_att_(\w+)_fc\.(\w)_0",
     r"encoder.host.encoder.layer.\1.attention.self.\2.\3"),
    (r"encoder_layer_(\d+)_post_att_layer_norm_(\w+)",
     r"encoder.host.encoder.layer.\1.attention.output.LayerNorm.\2"),
    (r"encoder_layer_(\d+)_ffn_fc_0\.(\w)_0",
     r"encoder.host.encoder.layer.\1.intermediate.dense.\2"),
    (r"encoder_layer_(\d+)_ffn_fc_1\.(\w)_0", r"encoder.host.encoder.layer.\1.output.dense.\2"),
    (r"encoder_layer_(\d+)_post_ffn_layer_norm_(\w+)",
     r"encoder.host.encoder.layer.\1.output.LayerNorm.\2"),
    (r"memory_layer_projection\.(\w)_0", r"encoder.memory.projection.\1"),
    (r"memory_layer_sentinel", "encoder.memory.sentinel"),
    (r"self_matching_layer_bias", "encoder.matching.bias"),
    (r"self_matching_layer_weight1", "encoder.matching.query"),
    (r"self_matching_layer_weight2", "encoder.matching.key"),
    (r"self_matching_layer_weightmul", "encoder.matching.product"),
    (r"cls_squad_out_(\w)", r"encoder.output.\1"),
)  # fmt: skip
"""The original's names as patterns, and ours; what is called w, b and scale has whole names."""
TABLES = {"word": "word_embeddings", "pos": "position_embeddings", "sent": "token_type_embeddings"}
WHOLE = {"w": "weight", "b": "bias", "scale": "weight"}


def load(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(folder / f"{name}.safetensors")


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def ours(name: str) -> str:
    """Our parameter of the original's `name`."""
    if name.endswith("_embedding"):
        return f"encoder.host.embeddings.{TABLES[name.removesuffix('_embedding')]}.weight"
    result = next(re.sub(theirs, our, name) for theirs, our in OURS if re.fullmatch(theirs, name))
    stem, _, last = result.rpartition(".")
    return f"{stem}.{WHOLE.get(last, last)}"


def turned(name: str, value: Tensor) -> Tensor:
    """A matrix of a layer is stored the other way round; a table is not."""
    return value.T if value.ndim == 2 and not name.endswith("_embedding") else value


def graph_of(folder: Path) -> KnowledgeGraph:
    """The concepts as entities; the first name there is the padding's."""
    names = read(folder, "concepts")["id2concept"][1:]
    return graph_from_records([Text(name, TextKind.LABEL, name, "en") for name in names])


def vectors_file(folder: Path, path: Path) -> Wikipedia2VecFile:
    """The original's lines of numbers in the format that we read."""
    lines = read(folder, "concepts")["embedding_file_lines"]
    width = len(lines[0].split()) - 1
    text = [f"{len(lines)} {width}", *(ENTITY_PREFIX + line for line in lines), ""]
    path.write_text("\n".join(text), encoding="utf-8")
    return Wikipedia2VecFile(path)


def rows_of(folder: Path, graph: KnowledgeGraph) -> Tensor:
    """Our row of each of their numbers, `NONE` for the first."""
    names = read(folder, "concepts")["id2concept"][1:]
    results = [graph.entities.find(name) for name in names]
    return torch.tensor([NONE, *(i + N_SPECIAL_ROWS for i in results if i is not None)])


@torch.no_grad()
def new_model(folder: Path) -> KnowledgeForTask:
    """Their weights. Their scores are the first two numbers of a state, which the head picks out.

    The host's own states, which we add, are taken out of those two by the layer before.
    """
    config, state, graph = read(folder, "config"), load(folder, "state_dict"), graph_of(folder)
    inner = state["encoder_layer_0_ffn_fc_0.w_0"].shape[1]
    host = AutoModel.from_config(
        AutoConfig.for_model(
            "bert", **config["bert"], intermediate_size=inner,
            layer_norm_eps=config["layer_norm_eps"],
        )
    )  # fmt: skip
    encoder = KTNET.from_host(host, graph, concept_width=config["concept_dim"])
    rows = rows_of(folder, graph)[1:]
    encoder.concept_vectors.weight[rows] = state[TABLE][1:]
    model = KnowledgeForTask.of(encoder, "span", START_END, problem_type=SPAN, over="all")
    parameters = dict(model.named_parameters())
    for name, value in state.items():
        if name != TABLE:
            value = turned(name, value)
            parameters[ours(name)][: len(value)] = value
    ends = torch.eye(len(START_END), host.config.hidden_size)
    encoder.output.weight[: len(ends), : ends.shape[1]] -= ends
    model.head.classes.weight.copy_(ends)
    model.head.classes.bias.zero_()
    return model.eval()


def batch_of(folder: Path, graph: KnowledgeGraph) -> KnowledgeBatch:
    """Their inputs. A loss is over padding too, so that every node is one that is computed."""
    inputs = {name: value.squeeze(-1) for name, value in load(folder, "inputs").items()}
    ids = inputs["src_ids"]
    return KnowledgeBatch(
        node_ids=ids,
        node_kinds=torch.zeros_like(ids),
        node_mask=torch.ones_like(ids, dtype=torch.bool),
        positions=inputs["pos_ids"],
        segment_ids=inputs["sent_ids"],
        visibility=Visibility.of_real(inputs["input_mask"] > 0),
        extra_ids={CONCEPTS: rows_of(folder, graph)[inputs["concept_ids"]]},
        labels=torch.stack([inputs["start_positions"], inputs["end_positions"]], dim=1),
    )


@pytest.fixture(scope="module")
def model(folder: Path) -> KnowledgeForTask:
    return new_model(folder)


@pytest.fixture(scope="module")
def batch(folder: Path) -> KnowledgeBatch:
    return batch_of(folder, graph_of(folder))


def test_concept_vectors(folder: Path, tmp_path: Path, compared: Any) -> None:
    graph, table = graph_of(folder), load(folder, "state_dict")[TABLE]
    actual = vectors_file(folder, tmp_path / "vectors.txt")(graph)
    rows = rows_of(folder, graph)[1:] - N_SPECIAL_ROWS
    compared.close("vectors", actual.vectors[rows], table[1:], atol=ATOL, rtol=RTOL)
    result = new_model(folder).encoder.concept_vectors.weight
    compared.close("padding", result[PAD_ROW], table[0], atol=ATOL)


@torch.no_grad()
def test_the_two_layers(
    folder: Path, model: KnowledgeForTask, batch: KnowledgeBatch, compared: Any
) -> None:
    expected, encoder = load(folder, "outputs"), model.encoder
    ids = batch.extra_ids[CONCEPTS]
    states = encoder(batch).hidden_states[-2]
    concepts, is_concept = encoder.concept_vectors(ids.clamp(min=PAD_ROW)), ids != NONE
    concepts = concepts.masked_fill(~is_concept[..., None], 0)
    query = encoder.memory.projection(states)
    scores = torch.cat([encoder.memory.sentinel.expand_as(concepts[..., :1, :]), concepts], 2)
    joint, mask = encoder.with_concepts(states, ids), batch.visibility.mask
    actual = {
        "bert_output": states,
        "memory_length": is_concept.sum(-1, keepdim=True),
        "memory_score_unmasked": (scores @ query[..., None])[..., 0],
        "memory_attention": encoder.memory.attention(states, concepts, is_concept),
        "memory_output": joint,
        "self_matching_attention": encoder.matching.attention(joint, mask),
        "self_matching_output": encoder.matching(joint, mask),
    }
    for name, value in actual.items():
        compared.close(name, value, expected[name], atol=ATOL, rtol=RTOL)


def test_scores_losses_and_gradients(
    folder: Path, model: KnowledgeForTask, batch: KnowledgeBatch, compared: Any
) -> None:
    expected, wanted = load(folder, "outputs"), load(folder, "grads")
    model.zero_grad(set_to_none=True)
    output = model(batch)
    for i, name in enumerate(START_END):
        logits = output.class_logits[..., i : i + 1]
        theirs = expected[f"{name}_logits"]
        compared.close(f"{name} scores", logits.detach()[..., 0], theirs, atol=ATOL, rtol=RTOL)
        loss = task_loss(SPAN, logits, batch.labels[:, i : i + 1]).detach()
        compared.close(f"{name} loss", loss, expected[f"{name}_loss"], atol=ATOL, rtol=RTOL)
    loss = output.losses["class"]
    compared.close("loss", loss.detach(), expected["total_loss"], atol=ATOL, rtol=RTOL)
    loss.backward()
    parameters = dict(model.named_parameters())
    for name, value in wanted.items():
        theirs = turned(name, value)
        if name == "word_embedding":
            theirs[0] = 0  # transformers never trains the padding's row
        gradient = parameters[ours(name)].grad
        assert gradient is not None, name
        compared.close(name, gradient[: len(theirs)], theirs, atol=ATOL, rtol=RTOL)
