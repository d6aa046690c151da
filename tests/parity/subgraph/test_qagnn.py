"""QA-GNN's model against the original's: values, losses, gradients, statistics and one layer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoConfig

from kept.batches import IGNORE, N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch
from kept.convert import qagnn as keys
from kept.encoders.subgraph.base import real_places, to_places, to_spots
from kept.heads.model import KnowledgeForTask, task_loss
from kept.layers.gat_conv import EdgeEncoder, GATConvE
from kept.tasks.kinds import CHOICE
from tests.parity.subgraph import subgraph_golden as golden
from tests.parity.subgraph import subgraph_training as training

METHOD = "qagnn"
SHORT, DOUBLE = torch.float32, torch.float64


def case_names(folder: Path) -> list[str]:
    variants = json.loads((folder / "config.json").read_text())["variants"]
    return ["main", "hand", *variants]


PARAMETERS = {"name": case_names}


@pytest.fixture(scope="module")
def name(request: pytest.FixtureRequest) -> str:
    """A case of the folder whose sentence vectors are given."""
    chosen: str = request.param
    return chosen


# ---- the model ----------------------------------------------------------------------------------
def decoder_of(folder: Path, name: str) -> dict[str, Tensor]:
    """Its own weights, or those of the main case where it has none."""
    stem = f"state_dict_{name}"
    return golden.load(
        folder, stem if (folder / f"{stem}.safetensors").is_file() else "state_dict_main"
    )


def config_of(folder: Path, name: str) -> dict[str, Any]:
    config = golden.read(folder, "config")
    return config | config["variants"].get(name, {})


def model_of(folder: Path, name: str, dtype: torch.dtype = DOUBLE) -> KnowledgeForTask:
    """The original's weights; dropout is off in training, too."""
    settings, decoder = config_of(folder, name), decoder_of(folder, name)
    host = AutoConfig.for_model("roberta", **settings["lm"])
    graph = {"n_entities": settings["n_concept"], "n_relations": settings["n_rel"]}
    config = keys.original_config(decoder, host, graph, pooling_heads=settings["n_attention_head"])
    table = decoder[keys.TABLE]
    lm = golden.load(folder, "lm_state_dict")
    model = keys.from_original(decoder, lm, config, table, padding=table[0])
    golden.without_dropout(model)
    return model.to(dtype)


def sizes_agree(folder: Path, name: str) -> None:
    settings, model = config_of(folder, name), model_of(folder, name)
    encoder = model.encoder
    assert len(encoder.graph.layers) == settings["k"]
    assert encoder.config.graph_width == settings["concept_dim"]
    assert encoder.graph.layers[0].heads == settings["gat_heads"]
    assert encoder.graph.edge_encoder.n_edge_types == settings["n_etype"]
    assert model.config.head["layers"] == settings["n_fc_layer"]


# ---- batches ------------------------------------------------------------------------------------
def rows_of(folder: Path, name: str) -> dict[str, Tensor]:
    """One row a choice: ids, types, scores, lengths, edges and sentence vectors."""
    inputs = golden.load(folder, "inputs")
    if name == "hand":
        return golden.part(inputs, "hand.")
    fields = ("concept_ids", "node_type_ids", "node_scores", "adj_lengths")
    rows = {field: golden.of_all(inputs[field]) for field in fields}
    rows |= {"edge_index": inputs["batched_edge_index"], "edge_type": inputs["batched_edge_type"]}
    rows["sent_vecs"] = inputs["sent_vecs"]
    if name == "no_scores":
        rows["node_scores"] = torch.zeros_like(rows["node_scores"])
    return rows


def edges_of(rows: dict[str, Tensor], n_types: int) -> list[tuple[Tensor, Tensor]]:
    """The direct halves of every row's edges, at places of its own."""
    n_batch, n_places = rows["concept_ids"].shape
    index, types = rows["edge_index"], rows["edge_type"]
    results = []
    for i in range(n_batch):
        is_inside = (index[0] >= i * n_places) & (index[0] < (i + 1) * n_places)
        direct = is_inside & (types < n_types // 2)
        results.append((index[:, direct] - i * n_places, types[direct]))
    return results


def batch_of(folder: Path, name: str, dtype: torch.dtype = DOUBLE) -> KnowledgeBatch:
    rows, config = rows_of(folder, name), golden.read(folder, "config")
    fields = golden.subgraphs(
        rows["concept_ids"], rows["node_type_ids"], rows["node_scores"][..., 0],
        rows["adj_lengths"], edges_of(rows, config["n_etype"]), n_relations=config["n_rel"],
    )  # fmt: skip
    batch = golden.no_words(len(rows["concept_ids"])).replace(**fields)
    return batch.replace(subgraph_scores=batch.subgraph_scores.to(dtype))


def labels_of(folder: Path) -> Tensor:
    """As our choices have them: at the first row of each question."""
    labels, n_choices = golden.load(folder, "inputs")["labels"], config_of(folder, "")["num_choice"]
    rows = torch.full((len(labels), n_choices), IGNORE)
    rows[:, 0] = labels
    return rows.flatten()


def sentences(folder: Path, name: str, dtype: torch.dtype) -> Tensor:
    return rows_of(folder, name)["sent_vecs"].to(dtype)


def cross_entropy(folder: Path, logits: Tensor) -> Tensor:
    return task_loss(CHOICE, logits.reshape(-1, 1), labels_of(folder))


def margin_rank(folder: Path, logits: Tensor) -> Tensor:
    return training.margin_rank(logits, golden.load(folder, "inputs")["labels"])


LOSSES = {"cross_entropy": cross_entropy, "margin_rank": margin_rank}


class Run:
    """One forward pass on given sentence vectors, with all that happens between."""

    def __init__(self, folder: Path, name: str, *, training: bool, dtype: torch.dtype) -> None:
        self.model = model_of(folder, name, dtype).train(training)
        self.model.requires_grad_(True)
        self.rows, self.batch = rows_of(folder, name), batch_of(folder, name, dtype)
        encoder = self.model.encoder
        self.sentence = sentences(folder, name, dtype).requires_grad_()
        self.graph = golden.original_graph(
            self.rows["edge_index"], self.rows["edge_type"],
            self.rows["node_type_ids"].flatten(), encoder.graph.edge_encoder.n_edge_types,
        )  # fmt: skip
        self.scores = encoder.scores(self.batch)
        ids = self.rows["concept_ids"][:, 1:] - 1 + N_SPECIAL_ROWS
        self.with_ids = self.batch.replace(subgraph_ids=ids)  # the original's padding, too
        self.inputs = encoder.inputs(self.sentence, self.with_ids)
        self.features = encoder.flat_features(self.batch, self.scores)
        self.layers: list[dict[str, Tensor]] = []
        spots = self._layers(to_spots(self.inputs))
        self.output = encoder.graph.combined(self.inputs, to_places(spots, self.batch))
        self.mask = encoder.pooled_places(self.batch)
        self.text = encoder.pooled_graph(self.sentence, self.output, self.batch)
        self.logits = self.model.head.mlp(self.text).view(self.shape(folder, name))

    def shape(self, folder: Path, name: str) -> tuple[int, int]:
        n_choices = 1 if name == "hand" else config_of(folder, name)["num_choice"]
        return (-1, n_choices)

    def _layers(self, spots: Tensor) -> Tensor:
        """As `GraphLayers.run`, with every step looked at."""
        graph = self.model.encoder.graph
        for layer in graph.layers:
            edges = graph.edge_encoder(self.graph)
            both = torch.cat([spots, self.features], dim=1)
            output = layer(spots, self.features, edges, self.graph)
            self.layers.append({
                "edge_embeddings": edges[:-1],
                "attention": layer.attention(both, edges, self.graph)[:-1],
                "aggregated": layer.aggregated(both, edges, self.graph)[:-1],
                "output": output[:-1],
            })  # fmt: skip
            spots = F.gelu(output, approximate="tanh")
        return spots

    def pool_attention(self) -> Tensor:
        """Head by head, as the original stores it."""
        encoder = self.model.encoder
        shares = encoder.pooling.attention(self.sentence, self.output, self.mask)
        return shares.transpose(0, 1).flatten(0, 1)

    def values(self) -> Iterator[tuple[str, Tensor]]:
        encoder = self.model.encoder
        width = encoder.config.graph_width
        yield "concept_embedding", encoder.entity_states(self.with_ids)
        yield "gnn.input_H", self.inputs
        yield "node_scores_normalised", self.scores[..., None]
        yield "node_feature_extra", self.features[:-1]
        for i, layer in enumerate(self.layers):
            for name, value in layer.items():
                yield f"layer{i}.{name}", value
        yield "gnn.output", self.output
        yield "pool.mask", ~self.original_mask()
        yield "pool.attention", self.pool_attention()
        yield "pool.graph_vecs", self.text[:, :width]
        yield "concat", self.text
        yield "logits", self.logits

    def original_mask(self) -> Tensor:
        """What is pooled; the context node where nothing else is."""
        first = torch.zeros_like(self.mask)
        first[:, 0] = ~self.mask.any(1)
        return self.mask | first


def stored(folder: Path, dtype: torch.dtype, name: str, mode: str) -> dict[str, Tensor]:
    outputs = golden.load(folder, "outputs_f64" if dtype == DOUBLE else "outputs_f32")
    return golden.part(outputs, f"{name}.{mode}.")


# ---- tests --------------------------------------------------------------------------------------
def test_sizes(folder: Path, name: str) -> None:
    sizes_agree(folder, name)


@pytest.mark.parametrize("dtype", [DOUBLE, SHORT], ids=["double", "single"])
@pytest.mark.parametrize("mode", ["eval", "train"])
@torch.no_grad()
def test_every_value(folder: Path, name: str, mode: str, dtype: torch.dtype) -> None:
    theirs = stored(folder, dtype, name, mode)
    run, n_compared = Run(folder, name, training=mode == "train", dtype=dtype), 0
    for key, value in run.values():
        if key in theirs:
            golden.close(value, theirs[key])
            n_compared += 1
    for loss, function in LOSSES.items():
        if f"loss.{loss}" in theirs:
            golden.close(function(folder, run.logits), theirs[f"loss.{loss}"])
            n_compared += 1
    others = [key for key in theirs if not key.startswith("after.")]
    assert n_compared == len(others), sorted(others)


@torch.no_grad()
def test_our_own_edges_give_the_same(folder: Path) -> None:
    """The encoder's graph has its edges in another order, and a spare node for padded ones.

    The graph made by hand is left out: there the context node has other edges than its types say.
    """
    for name in case_names(folder):
        if name != "hand":
            own_edges_give_the_same(folder, name)


def own_edges_give_the_same(folder: Path, name: str) -> None:
    theirs = stored(folder, DOUBLE, name, "eval")
    model, batch = model_of(folder, name), batch_of(folder, name)
    output = model.encoder.graph_output(sentences(folder, name, DOUBLE), batch)
    real = real_places(batch)
    golden.close(output[real], theirs["gnn.output"][real])


@torch.no_grad()
def test_statistics_after_one_forward(folder: Path, name: str) -> None:
    theirs = golden.part(stored(folder, DOUBLE, name, "train"), "after.")
    run = Run(folder, name, training=True, dtype=DOUBLE)
    buffers = run.model.state_dict()
    rules = keys.decoder_rules(config_of(folder, name)["k"], 0)
    renamed = keys.to_ours(theirs, rules)
    assert renamed
    for key, value in renamed.items():
        if key.endswith("num_batches_tracked"):
            assert int(buffers[key]) == int(value)
        else:
            golden.close(buffers[key], value)


def gradient_cases(folder: Path) -> list[tuple[str, str, str]]:
    names = {tuple(key.split(".")[:3]) for key in golden.load(folder, "grads_f64")}
    return sorted(case for case in names if case[0] != "with_lm")  # type: ignore[misc]


def compare_gradients(
    model: KnowledgeForTask,
    theirs: dict[str, Tensor],
    n_layers: int,
    *,
    training: bool,
    sentence: Tensor | None = None,
) -> None:
    """Of every stored parameter; the table's rows of entities and of padding are one there."""
    gradients = {k: p.grad for k, p in model.named_parameters()}
    last_bias = f"fc.layers.{model.config.head['layers']}-Linear.bias"
    no_hidden = model.config.head["layers"] == 0
    rules = keys.decoder_rules(n_layers, model.config.head["layers"])
    for key, value in theirs.items():
        if key == last_bias or (no_hidden and key == "pooler.w_vs.bias"):
            continue
        if key == "sent_vecs":
            ours = None if sentence is None else sentence.grad
        elif key == keys.TABLE:
            table = gradients[keys.VECTORS]
            assert table is not None
            ours = table[N_SPECIAL_ROWS:].clone()
            ours[0] += table[PAD_ROW]
        else:
            (name,) = keys.to_ours({key: value}, rules)
            ours = gradients[name]
        golden.close_gradient(key, ours, value, training=training)


def test_gradients(folder: Path) -> None:
    cases = gradient_cases(folder)
    assert cases
    for name, mode, loss in cases:
        run = Run(folder, name, training=mode == "train", dtype=DOUBLE)
        LOSSES[loss](folder, run.logits).backward()
        theirs = golden.part(golden.load(folder, "grads_f64"), f"{name}.{mode}.{loss}.")
        compare_gradients(
            run.model, theirs, config_of(folder, name)["k"], training=mode == "train",
            sentence=run.sentence,
        )  # fmt: skip


@torch.no_grad()
def test_no_scores_are_scores_of_zero(folder: Path) -> None:
    run = Run(folder, "no_scores", training=False, dtype=DOUBLE)
    golden.close(run.logits, stored(folder, DOUBLE, "no_scores", "eval")["logits"])


# ---- with the language model --------------------------------------------------------------------
def texts_of(folder: Path) -> KnowledgeBatch:
    """The texts as words, and their subgraphs; padding has the start token and is masked."""
    inputs, lm = golden.load(folder, "inputs"), golden.read(folder, "config")["lm"]
    text = {k: golden.of_all(v) for k, v in golden.part(inputs, "text.roberta.").items()}
    batch = golden.words(
        text["input_ids"], text["input_mask"], text["segment_ids"], pad_id=lm["pad_token_id"]
    )
    own_batch = batch_of(folder, "with_lm")
    return batch.replace(
        labels=labels_of(folder),
        **{k: v for k, v in vars(own_batch).items() if k.startswith("subgraph_")},
    )


def with_lm(folder: Path, layer: int = -1, dtype: torch.dtype = DOUBLE) -> Any:
    model, batch = model_of(folder, "with_lm", dtype), texts_of(folder)
    model.encoder.config.host_layer = layer
    model.requires_grad_(True)
    batch = batch.replace(subgraph_scores=batch.subgraph_scores.to(dtype))
    return model, batch, model(batch)


@pytest.mark.parametrize("dtype", [DOUBLE, SHORT], ids=["double", "single"])
@torch.no_grad()
def test_the_whole_model(folder: Path, dtype: torch.dtype) -> None:
    theirs = stored(folder, dtype, "with_lm", "eval")
    _, _, output = with_lm(folder, dtype=dtype)
    shape = theirs["logits"].shape
    golden.close(output.class_logits.view(shape), theirs["logits"])
    golden.close(output.losses["class"], theirs["loss.cross_entropy"])
    mask = golden.of_all(golden.load(folder, "inputs")["text.roberta.input_mask"]) > 0
    golden.close(output.hidden_states[-2][mask], theirs["last_hidden"][mask])
    for key in theirs:
        if key.startswith("encoder_layer_"):
            layer = int(key.removeprefix("encoder_layer_").removesuffix(".logits"))
            _, _, other = with_lm(folder, layer, dtype)
            golden.close(other.class_logits.view(shape), theirs[key])


def test_gradients_of_the_whole_model(folder: Path) -> None:
    theirs = golden.part(golden.load(folder, "grads_f64"), "with_lm.eval.cross_entropy.")
    assert theirs
    model, _, output = with_lm(folder)
    output.losses["class"].backward()
    graph = golden.part(theirs, "decoder.")
    compare_gradients(model, graph, config_of(folder, "main")["k"], training=False)
    gradients = {k: p.grad for k, p in model.named_parameters()}
    of_lm = {k: v for k, v in theirs.items() if not k.startswith("decoder.")}
    for key, value in of_lm.items():
        name = key[max(key.find(start) for start in ("embeddings.", "encoder.layer", "pooler.")) :]
        ours = gradients[f"encoder.host.{name}"]
        if name == "embeddings.word_embeddings.weight" and ours is not None:
            ours = ours.clone()
            ours[golden.read(folder, "config")["lm"]["pad_token_id"]] = 0
        golden.close_gradient(key, ours, value, training=False)


# ---- one layer alone ----------------------------------------------------------------------------
def test_one_layer(folder: Path) -> None:
    """The first layer on other states: attention, output and all gradients."""
    theirs, inputs = golden.load(folder, "layer_f64"), golden.load(folder, "inputs")
    model, rows = model_of(folder, "hand").eval(), rows_of(folder, "hand")
    graph_layers = model.encoder.graph
    layer, edge_encoder = graph_layers.layers[0], graph_layers.edge_encoder
    assert isinstance(layer, GATConvE)
    assert isinstance(edge_encoder, EdgeEncoder)
    graph = golden.original_graph(
        rows["edge_index"], rows["edge_type"], rows["node_type_ids"].flatten(),
        edge_encoder.n_edge_types,
    )  # fmt: skip
    assert torch.equal(graph.edge_index[:, :-1], theirs["edge_index_with_loops"])
    x, extra = (
        inputs[f"layer.{name}"].double().requires_grad_() for name in ("x", "node_feature_extra")
    )
    states, features = (F.pad(value, (0, 0, 0, 1)) for value in (x, extra))
    edges = edge_encoder(graph)
    both = torch.cat([states, features], dim=1)
    golden.close(layer.attention(both, edges, graph)[:-1], theirs["attention"])
    output = layer(states, features, edges, graph)[:-1]
    golden.close(output, theirs["output"])
    (output * inputs["layer.coefficient"].double()).sum().backward()
    parameters = {k.removeprefix("encoder.graph."): p.grad for k, p in model.named_parameters()} | {
        "x": x.grad,
        "node_feature_extra": extra.grad,
    }
    rules = keys.layer_rules("gnn.", "", 1)
    for key, value in golden.part(theirs, "grad.").items():
        old = f"gnn.{key}" if key.startswith("edge_encoder") else f"gnn.gnn_layers.0.{key}"
        name = key if key in parameters else next(iter(keys.to_ours({old: value}, rules)))
        golden.close_gradient(key, parameters[name], value, training=False)


def test_features_of_edges(folder: Path) -> None:
    """The one-hot vectors are 1 where our sum of columns has its columns."""
    one_hot = golden.load(folder, "edge_features")["main.edge_features_one_hot"]
    model, rows = model_of(folder, "main"), rows_of(folder, "main")
    encoder = model.encoder.graph.edge_encoder
    graph = golden.original_graph(
        rows["edge_index"], rows["edge_type"], rows["node_type_ids"].flatten(),
        encoder.n_edge_types,
    )  # fmt: skip
    ours = torch.zeros_like(one_hot).scatter_(1, encoder.columns(graph)[:-1], 1)
    assert torch.equal(ours, one_hot)


def test_places_of_the_batch(folder: Path, name: str) -> None:
    rows, batch = rows_of(folder, name), batch_of(folder, name)
    assert real_places(batch).sum(1).tolist() == rows["adj_lengths"].tolist()
