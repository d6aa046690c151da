"""Folders of QA-GNN and GreaseLM of any size, from the restatement of the originals.

Examples are made up, weights random; the expected numbers are `original_subgraphs`' own.

Axis legend: as there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.parity.other_sizes import tensors
from tests.reference import original_subgraphs as reference
from tests.reference.original_subgraphs import Network, Rows, State

Shapes = dict[str, tuple[int, ...]]
Example = dict[str, Any]
POSITIONS = "position_embeddings.weight"


# ---- weights -------------------------------------------------------------------------------------
def random_state(shapes: Shapes, seed: int, pad_id: int | None = None) -> State:
    """Random weights, none near zero; the pad rows of the language model's tables are zero."""
    draws, state = torch.Generator().manual_seed(seed), {}
    for name, shape in shapes.items():
        value = torch.randn(shape, generator=draws) * 0.25
        if name.endswith("num_batches_tracked"):
            value = torch.tensor(3)
        elif name.endswith("running_var"):
            value = 0.5 + value.abs()
        elif len(shape) == 1 and name.endswith(("Norm.weight", "norm.weight", ".1.weight")):
            value = 1 + value
        if pad_id is not None and name.endswith(("word_embeddings.weight", POSITIONS)):
            value[pad_id] = 0
        state[name] = value
    return state


def linear(name: str, into: int, out: int) -> Shapes:
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def normed_mlp(name: str, into: int, width: int) -> Shapes:
    running = {f"{name}.1.running_{part}": (width,) for part in ("mean", "var")}
    counted: Shapes = {f"{name}.1.num_batches_tracked": ()}
    hidden = linear(f"{name}.0", into, width) | norm(f"{name}.1", width)
    return hidden | running | counted | linear(f"{name}.3", width, width)


def layers_of(prefix: str, config: Mapping[str, Any]) -> Shapes:
    """The graph layers and the edge encoder."""
    width, n_types = config["concept_dim"], config["n_etype"]
    shapes = normed_mlp(f"{prefix}edge_encoder", n_types + 1 + 2 * reference.N_NODE_TYPES, width)
    for i in range(config["k"]):
        name = f"{prefix}gnn_layers.{i}"
        for part, times in (("key", 3), ("msg", 3), ("query", 2)):
            shapes |= linear(f"{name}.linear_{part}", times * width, width)
        shapes |= normed_mlp(f"{name}.mlp", width, width)
    return shapes


def outside(features: str, prefix: str, config: Mapping[str, Any], sentence: int) -> Shapes:
    """The concepts, the features of nodes, the pool and the score."""
    width, own_width = config["concept_dim"], config["concept_in_dim"]
    n_rows = config["n_concept"] + (2 if prefix else 0)
    shapes: Shapes = {f"{prefix}concept_emb.emb.weight": (n_rows, own_width)}
    if own_width != width:
        shapes |= linear(f"{prefix}concept_emb.cpt_transform", own_width, width)
    shapes |= linear(f"{features}Vh", width, width) | linear(f"{features}Vx", width, width)
    shapes |= linear(f"{features}emb_node_type", reference.N_NODE_TYPES, width // 2)
    shapes |= linear(f"{features}emb_score", width // 2, width // 2)
    shapes |= linear(f"{prefix}pooler.w_qs", sentence, width)
    shapes |= linear(f"{prefix}pooler.w_ks", width, width)
    shapes |= linear(f"{prefix}pooler.w_vs", width, width)
    hidden = [config["fc_dim"]] * config["n_fc_layer"]
    return shapes | mlp(f"{prefix}fc", [2 * width + sentence, *hidden, 1], normed=True)


def mlp(name: str, widths: Sequence[int], *, normed: bool) -> Shapes:
    shapes: Shapes = {}
    for i, (into, out) in enumerate(pairwise(widths)):
        shapes |= linear(f"{name}.layers.{i}-Linear", into, out)
        if normed and i < len(widths) - 2:
            shapes |= norm(f"{name}.layers.{i}-LayerNorm", out)
    return shapes


def language_model(prefix: str, config: Mapping[str, Any], *, pooler: bool = True) -> Shapes:
    width, inner = config["hidden_size"], config["intermediate_size"]
    tables = (("word", "vocab_size"), ("position", "max_position_embeddings"),
              ("token_type", "type_vocab_size"))  # fmt: skip
    shapes: Shapes = {
        f"{prefix}embeddings.{name}_embeddings.weight": (config[size], width)
        for name, size in tables
    }
    shapes |= norm(f"{prefix}embeddings.LayerNorm", width)
    for i in range(config["num_hidden_layers"]):
        name = f"{prefix}encoder.layer.{i}"
        for part in ("query", "key", "value"):
            shapes |= linear(f"{name}.attention.self.{part}", width, width)
        shapes |= linear(f"{name}.attention.output.dense", width, width)
        shapes |= linear(f"{name}.intermediate.dense", width, inner)
        shapes |= linear(f"{name}.output.dense", inner, width)
        shapes |= norm(f"{name}.attention.output.LayerNorm", width)
        shapes |= norm(f"{name}.output.LayerNorm", width)
    return shapes | (linear(f"{prefix}pooler.dense", width, width) if pooler else {})


def cast(state: Mapping[str, Tensor], dtype: torch.dtype) -> State:
    return {k: v.to(dtype) if v.is_floating_point() else v for k, v in state.items()}


def leaves(state: State) -> State:
    """The weights that have gradients, now leaves of their own in `state`."""
    for name, value in state.items():
        if value.is_floating_point() and ".running_" not in name:
            state[name] = value.detach().clone().requires_grad_()
    return {name: value for name, value in state.items() if value.requires_grad}


# ---- examples ------------------------------------------------------------------------------------
def neighbours(edges: Sequence[Sequence[Any]], but: int | None = None) -> dict[int, set[int]]:
    """Of source, target, type and weight, both ways in `edges`; a loop gives none."""
    near: dict[int, set[int]] = {}
    for source, target, kind, _ in edges:
        if source != target and kind != but:
            near.setdefault(source, set()).add(target)
    return near


def common(pairs: Any, near: Mapping[int, set[int]]) -> set[int]:
    joined: set[int] = set()
    for one, other in pairs:
        joined |= near.get(one, set()) & near.get(other, set())
    return joined


def between(
    question: Sequence[int], answer: Sequence[int], near: Mapping[int, set[int]]
) -> set[int]:
    concepts = {*question, *answer}
    return common(permutations(sorted(concepts), 2), near) - concepts


def example_of(
    question: Sequence[int],
    answer: Sequence[int],
    extras: Sequence[int],
    triples: Sequence[tuple[int, int, int]],
) -> Example:
    """Concepts in their order, and direct edges (relation, source, target) among their places."""
    concepts = [*sorted(question), *sorted(answer), *extras]
    position_of = {concept: i for i, concept in enumerate(concepts)}
    edges = sorted(
        [relation, position_of[source], position_of[target]]
        for source, relation, target in triples
        if source in position_of and target in position_of
    )
    n, n_question = len(concepts), len(question)
    return {
        "concepts": concepts,
        "qmask": [i < n_question for i in range(n)],
        "amask": [n_question <= i < n_question + len(answer) for i in range(n)],
        "edges_rel_src_dst": edges,
    }


def loaded(
    example: Example, n_places: int, n_relations: int, *, connect_all: bool = False
) -> dict[str, Tensor]:
    """What the loader makes of an example: ids, types, scores, length, and edges both ways."""
    concepts = example["concepts"][: n_places - 1]
    scores = dict(map(tuple, example["cid2score_high_to_low"]))
    ids = torch.ones(n_places, dtype=torch.int64)
    types, relevance = torch.full((n_places,), 2), torch.zeros(n_places, 1)
    ids[0], types[0], relevance[0] = 0, reference.CONTEXT, scores[-1]
    edges = []
    flags = list(zip(example["qmask"], example["amask"], strict=True))
    for i, concept in enumerate(concepts, 1):
        is_question, is_answer = flags[i - 1]
        ids[i], relevance[i] = concept + 1, scores[concept]
        types[i] = 0 if is_question else 1 if is_answer else 2
    for which, kind in ((0, 0), (1, 1)):
        for i, flag in enumerate(flags, 1):
            if flag[which]:
                edges.append((kind, 0, i))
            elif connect_all:
                edges.append((n_relations + 2, 0, i))
    edges += [(r + 2, s + 1, t + 1) for r, s, t in example["edges_rel_src_dst"]]
    near = [edge for edge in edges if max(edge[1:]) < n_places]
    half = n_relations + 2 + connect_all
    near += [(kind + half, target, source) for kind, source, target in near]
    kinds, sources, targets = torch.tensor(near, dtype=torch.int64).view(-1, 3).T
    return {
        "concept_ids": ids, "node_type_ids": types, "node_scores": relevance,
        "adj_lengths": torch.tensor(len(concepts) + 1),
        "edge_index": torch.stack([sources, targets]), "edge_type": kinds,
    }  # fmt: skip


def stacked(rows: Sequence[Mapping[str, Tensor]], n_choices: int) -> dict[str, Tensor]:
    """Fields `[question choice ...]`, and the edges of each under their own names."""
    fields = ("concept_ids", "node_type_ids", "node_scores", "adj_lengths")
    inputs = {
        name: by_question(torch.stack([row[name] for row in rows]), n_choices) for name in fields
    }
    for i, row in enumerate(rows):
        question, choice = divmod(i, n_choices)
        inputs |= edges_by_name(row, f"{question}.{choice}")
    return inputs


def by_question(values: Tensor, n_choices: int) -> Tensor:
    """`[question choice ...]` of one row a choice."""
    return values.reshape(-1, n_choices, *values.shape[1:])


def edges_by_name(row: Mapping[str, Tensor], key: str, prefix: str = "") -> dict[str, Tensor]:
    return {f"{prefix}{name}.{key}": row[name] for name in ("edge_index", "edge_type")}


def rows_from(
    inputs: Mapping[str, Tensor], questions: slice = slice(None), *, prefix: str = ""
) -> Rows:
    """The graphs of some questions, as one."""
    lengths = inputs["adj_lengths"][questions]
    ids, types, scores = (
        inputs[name][questions].flatten(0, 1)
        for name in ("concept_ids", "node_type_ids", "node_scores")
    )
    first, n_choices = questions.start or 0, lengths.shape[1]
    places = [f"{q}.{c}" for q in range(first, first + len(lengths)) for c in range(n_choices)]
    edges = [
        (inputs[f"{prefix}edge_index.{key}"], inputs[f"{prefix}edge_type.{key}"]) for key in places
    ]
    index, kinds = reference.batched(edges, ids.shape[1])
    return Rows(ids, types, scores[..., 0].double(), lengths.flatten(), index, kinds)


# ---- numbers -------------------------------------------------------------------------------------
def with_losses(net: Network, labels: Tensor) -> State:
    losses = {
        f"loss.{name}": loss(net.values["logits"], labels)
        for name, loss in reference.LOSSES.items()
    }
    return net.values | losses


def after(net: Network) -> State:
    buffers = (".running_mean", ".running_var", ".num_batches_tracked")
    return {f"after.{k}": v for k, v in net.state.items() if k.endswith(buffers)}


def grads_of(weights: Mapping[str, Tensor], prefix: str) -> State:
    return {f"{prefix}{k}": v.grad for k, v in weights.items() if v.grad is not None}


def epochs(
    state: State,
    settings: Mapping[str, Any],
    labels: Tensor,
    forward: Callable[[slice], Tensor],
    is_slow: Callable[[str], bool],
    table: str,
) -> Iterator[list[list[Any]]]:
    """The original's training on `state`, in its place: logits, labels and loss by micro-batch.

    One list an epoch; `is_slow` weights are the language model's.
    """
    weights = {k: v for k, v in leaves(state).items() if k != table}
    state[table].requires_grad_(False)
    rates = {k: settings["encoder_lr" if is_slow(k) else "decoder_lr"] for k in weights}
    rule = reference.RAdam(weights, rates, settings["weight_decay"])
    for epoch in range(settings["n_epochs"]):
        records = []
        for name, value in weights.items():
            value.requires_grad_(epoch >= settings["unfreeze_epoch"] or not is_slow(name))
        for questions, share, ends in reference.micro_batches(len(labels), settings):
            logits, gold = forward(questions), labels[questions]
            loss = reference.LOSSES[settings["loss"]](logits, gold)
            records.append([logits.tolist(), gold.tolist(), loss.item()])
            (loss * share).backward()
            if ends:
                reference.clip(weights, settings["max_grad_norm"])
                rule.step()
                for value in weights.values():
                    value.grad = None
        yield records


def store(folder: Path, files: Mapping[str, Mapping[str, Tensor]]) -> None:
    for name, values in files.items():
        tensors.store(values, folder, name)


def short(values: Mapping[str, Tensor]) -> State:
    return {k: v.float() if v.is_floating_point() else v for k, v in values.items()}
