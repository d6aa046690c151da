"""GreaseLM's model against the original's: inputs, values, losses, gradients and statistics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoConfig

from kept import hosts
from kept.batches import IGNORE, N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch
from kept.convert import greaselm as keys
from kept.convert.tables import to_ours
from kept.heads.model import KnowledgeForTask, task_loss
from kept.layers.typed_graph import n_edge_types
from kept.tasks.kinds import CHOICE
from tests.parity.subgraph import subgraph_golden as golden
from tests.parity.subgraph import subgraph_training as training
from tests.parity.subgraph.test_qagnn_preparation import bert, byte_level

METHOD = "greaselm"
SHORT, DOUBLE = torch.float32, torch.float64
MIXED = {True: "all", False: "none", "every-other-layer": "every_other"}


def case_names(folder: Path) -> list[str]:
    return ["main", *json.loads((folder / "config.json").read_text())["variants"]]


PARAMETERS = {"name": case_names}


@pytest.fixture(scope="module")
def name(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


# ---- the model ----------------------------------------------------------------------------------
def config_of(folder: Path, name: str) -> dict[str, Any]:
    config = golden.read(folder, "config")
    return config | config["variants"].get(name, {})


def state_of(folder: Path, name: str) -> dict[str, Tensor]:
    """The weights of the main case, those of the variant alone in their place, and no others."""
    settings, state = config_of(folder, name), golden.load(folder, "state_dict_main")
    if (folder / f"state_dict_only_{name}.safetensors").is_file():
        state |= golden.load(folder, f"state_dict_only_{name}")
    return {key: value for key, value in state.items() if has_weight(settings, key)}


def has_weight(settings: dict[str, Any], key: str) -> bool:
    """Whether a model of these settings has it: the main case may have more of them."""
    if key.startswith(f"{keys.MODEL}concept_emb.cpt_transform."):
        return bool(settings["concept_in_dim"] != settings["concept_dim"])
    if key.startswith((keys.ONE, keys.MANY)):
        is_own = key.startswith(keys.MANY) == settings["sep_ie_layers"]
        return (
            is_own
            and number_in(key, "ie_layers.") < settings["k"]
            and (number_in(key, ".layers.") <= settings["ie_layer_num"])
        )
    if key.startswith(f"{keys.MODEL}fc.layers."):
        is_norm, number = "LayerNorm" in key, number_in(key, ".layers.")
        return number + is_norm <= settings["n_fc_layer"]
    return number_in(key, "gnn_layers.") < settings["k"]


def number_in(key: str, before: str) -> int:
    """The number that follows, -1 where none does."""
    number = re.match(r"\d+", key.partition(before)[2])
    return -1 if number is None else int(number[0])


def joins_all(settings: dict[str, Any]) -> bool:
    """Whether the context node is joined to every entity."""
    all_types: int = n_edge_types(settings["n_rel"], all_entities=True)
    return bool(settings["n_etype"] == all_types)


def model_of(folder: Path, name: str, dtype: torch.dtype = DOUBLE) -> KnowledgeForTask:
    """The original's weights; dropout is off in training, too."""
    settings, state = config_of(folder, name), state_of(folder, name)
    host = AutoConfig.for_model(settings["lm"], **settings["lm_config"])
    graph = {"n_entities": settings["n_concept"], "n_relations": settings["n_rel"]}
    config = keys.original_config(
        state, host, graph, pooling_heads=settings["n_attention_head"],
        mixed=MIXED[settings["info_exchange"]], all_entities=joins_all(settings),
    )  # fmt: skip
    table = state[keys.TABLE]
    vectors = table[: settings["n_concept"]]
    model = keys.from_original(state, config, vectors, padding=table[0])
    golden.without_dropout(model)
    return model.to(dtype)


def test_sizes(folder: Path, name: str) -> None:
    settings, encoder = config_of(folder, name), model_of(folder, name).encoder
    assert encoder.config.n_fused == settings["k"] == len(encoder.graph.layers)
    assert encoder.config.host.num_hidden_layers == settings["num_lm_layers"]
    assert encoder.config.mixing_layers == settings["ie_layer_num"]
    if settings["ie_layer_num"]:
        assert encoder.config.mixing_width == settings["ie_dim"]
    assert encoder.config.separate_mixing == settings["sep_ie_layers"]
    assert encoder.graph.edge_encoder.n_edge_types == settings["n_etype"]
    assert golden.load(folder, "state_dict_main")[keys.TABLE].shape[0] == (
        settings["n_concept"] + 2
    )


# ---- batches ------------------------------------------------------------------------------------
def prefix_of(folder: Path, name: str) -> str:
    """Before the names of a case's edges, where it has edges of its own."""
    is_own = any(key.startswith(f"{name}.edge_type.") for key in golden.load(folder, "inputs"))
    return f"{name}." if is_own else ""


def edges_of(folder: Path, name: str) -> list[tuple[Tensor, Tensor]]:
    """Of every question and choice: places and types of the direct half of its edges."""
    inputs, n_types = golden.load(folder, "inputs"), config_of(folder, name)["n_etype"]
    n_questions, n_choices = inputs["adj_lengths"].shape
    prefix, rows = prefix_of(folder, name), []
    for question in range(n_questions):
        for choice in range(n_choices):
            pattern = f"{prefix}edge_{{}}.{question}.{choice}"
            index, types = inputs[pattern.format("index")], inputs[pattern.format("type")]
            rows.append(golden.own_edges(index, types, n_types))
    return rows


def texts_of(folder: Path, kind: str = "text") -> dict[str, Tensor]:
    inputs = golden.part(golden.load(folder, "inputs"), f"{kind}.")
    return {name: golden.of_all(value) for name, value in inputs.items()}


def labels_of(folder: Path) -> Tensor:
    labels, n_choices = golden.load(folder, "inputs")["labels"], config_of(folder, "")["num_choice"]
    rows = torch.full((len(labels), n_choices), IGNORE)
    rows[:, 0] = labels
    return rows.flatten()


def batch_of(folder: Path, name: str, dtype: torch.dtype = DOUBLE) -> KnowledgeBatch:
    inputs, settings = golden.load(folder, "inputs"), config_of(folder, name)
    fields = golden.subgraphs(
        golden.of_all(inputs["concept_ids"]), golden.of_all(inputs["node_type_ids"]),
        golden.of_all(inputs["node_scores"])[..., 0], golden.of_all(inputs["adj_lengths"]),
        edges_of(folder, name), n_relations=settings["n_rel"],
    )  # fmt: skip
    text = texts_of(folder)
    batch = golden.words(
        text["input_ids"], text["input_mask"], text["segment_ids"],
        pad_id=settings["lm_config"]["pad_token_id"], family=settings["lm"],
    )  # fmt: skip
    scores = fields.pop("subgraph_scores").to(dtype)
    return batch.replace(labels=labels_of(folder), subgraph_scores=scores, **fields)


def real_words(folder: Path) -> Tensor:
    return texts_of(folder)["input_mask"] > 0


def margin_rank(folder: Path, logits: Tensor) -> Tensor:
    return training.margin_rank(logits, golden.load(folder, "inputs")["labels"])


def stored(folder: Path, dtype: torch.dtype, name: str, mode: str) -> dict[str, Tensor]:
    outputs = golden.load(folder, "outputs_f64" if dtype == DOUBLE else "outputs_f32")
    return golden.part(outputs, f"{name}.{mode}.")


class Run:
    """One forward pass with all that happens between, on the original's order of edges."""

    def __init__(self, folder: Path, name: str, *, training: bool, dtype: torch.dtype) -> None:
        self.folder, self.name = folder, name
        self.model = model_of(folder, name, dtype).train(training)
        self.batch = batch_of(folder, name, dtype)
        encoder, self.seen = self.model.encoder, {}
        self.graph = self._graph()
        self.inputs = encoder.inputs(self.batch)
        self.features = encoder.flat_features(
            self.batch, self.inputs.new_zeros(self.inputs.shape[:2])
        )
        self.words, self.output = self._layers()
        self.sentence = hosts.pooled(encoder.host, self.words)
        self.text = encoder.pooled_graph(self.sentence, self.output, self.batch)
        self.logits = self.model.head.mlp(self.text).view(-1, config_of(folder, name)["num_choice"])

    def _graph(self) -> Any:
        inputs = golden.load(self.folder, "inputs")
        n_places = inputs["concept_ids"].shape[2]
        rows, n_types = (
            edges_of(self.folder, self.name),
            config_of(self.folder, self.name)["n_etype"],
        )
        index, types = [], []
        for i, (ends, kinds) in enumerate(rows):
            moved = ends + i * n_places
            index += [moved, moved.flip(0)]
            types += [kinds, kinds + n_types // 2]
        return golden.original_graph(
            torch.cat(index, 1), torch.cat(types), inputs["node_type_ids"].flatten(), n_types
        )

    def _layers(self) -> tuple[Tensor, Tensor]:
        encoder, batch = self.model.encoder, self.batch
        hidden = hosts.embed_words(encoder.host, batch)
        self.seen["lm.embedding"] = hidden
        step = hosts.stepper(encoder.host, batch.visibility)
        layers = list(hosts.layers(encoder.host))
        spots = F.pad(self.inputs.flatten(0, 1), (0, 0, 0, 1))
        for number, layer in enumerate(layers):
            hidden = step(layer, hidden)
            self.seen[f"lm.layer{number}.output_before_mixing"] = hidden
            fused = number - len(layers) + encoder.config.n_fused
            if fused >= 0:
                hidden, spots = self._fused(fused, hidden, spots)
        places = spots[:-1].view_as(self.inputs)
        return hidden, encoder.graph.combined(self.inputs, places)

    def _fused(self, fused: int, words: Tensor, spots: Tensor) -> tuple[Tensor, Tensor]:
        encoder, seen = self.model.encoder, self.seen
        layer, edges = encoder.graph.layers[fused], encoder.graph.edge_encoder(self.graph)
        both = torch.cat([spots, self.features], dim=1)
        prefix = f"gnn.layer{fused}."
        seen[f"{prefix}input"] = spots[:-1]
        seen[f"{prefix}attention"] = layer.attention(both, edges, self.graph)[:-1]
        seen[f"{prefix}aggregated"] = layer.aggregated(both, edges, self.graph)[:-1]
        output = layer(spots, self.features, edges, self.graph)
        seen[f"{prefix}output"] = output[:-1]
        spots = F.gelu(output, approximate="tanh")
        before = self._pair(words, spots)
        words, spots = encoder.mix(fused, words, spots)
        seen[f"mixing{fused}.input"] = before
        seen[f"mixing{fused}.output"] = self._pair(words, spots)
        return words, spots

    def _pair(self, words: Tensor, spots: Tensor) -> Tensor:
        return torch.cat([words[:, 0], spots[:-1].view_as(self.inputs)[:, 0]], dim=1)

    def values(self) -> Iterator[tuple[str, Tensor]]:
        encoder, config = self.model.encoder, self.model.encoder.config
        yield from self.seen.items()
        yield "concept_embedding", self.inputs
        ids = self.batch.subgraph_ids - N_SPECIAL_ROWS
        context = torch.full_like(ids[:, :1], config.n_entities + 1)
        yield "concept_ids_as_looked_up", torch.cat([context, ids.clamp(min=0)], dim=1)
        yield "node_scores_used", self.inputs.new_zeros(*self.inputs.shape[:2], 1)
        yield "node_feature_extra", self.features[:-1]
        yield "lm.last_hidden", self.words
        yield "gnn.output", self.output
        yield "sent_vecs", self.sentence
        mask = encoder.pooled_places(self.batch)
        yield "pool.mask", ~mask
        shares = encoder.pooling.attention(self.sentence, self.output, mask)
        yield "pool.attention", shares.transpose(0, 1).flatten(0, 1)
        yield "pool.graph_vecs", self.text[:, : config.graph_width]
        yield "concat", self.text
        yield "logits", self.logits
        yield "loss.cross_entropy", task_loss(CHOICE, self.logits.reshape(-1, 1), self.batch.labels)
        yield "loss.margin_rank", margin_rank(self.folder, self.logits)


# ---- tests --------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [DOUBLE, SHORT], ids=["double", "single"])
@pytest.mark.parametrize("mode", ["eval", "train"])
@torch.no_grad()
def test_every_value(folder: Path, name: str, mode: str, dtype: torch.dtype) -> None:
    theirs = stored(folder, dtype, name, mode)
    run, n_compared = Run(folder, name, training=mode == "train", dtype=dtype), 0
    real = real_words(folder)
    for key, value in run.values():
        if key not in theirs:
            continue
        expected = theirs[key]
        if key.startswith("lm."):  # the first tokens alone; those of padding are nobody's
            is_real = real[:, : expected.shape[1]]
            value, expected = value[:, : expected.shape[1]][is_real], expected[is_real]
        if key == "concept_embedding":  # the context's is thrown away
            value, expected = value[:, 1:], expected[:, 1:]
        golden.close(value, expected)
        n_compared += 1
    others = [key for key in theirs if not key.startswith("after.")]
    assert n_compared == len(others) > 0, sorted(others)


@torch.no_grad()
def test_the_model_as_it_is_called(folder: Path, name: str) -> None:
    """Our own graph, our own forward pass: the same scores and loss in evaluation and training."""
    for mode in ("eval", "train"):
        theirs = stored(folder, DOUBLE, name, mode)
        model = model_of(folder, name).train(mode == "train")
        output = model(batch_of(folder, name))
        golden.close(output.class_logits.view(theirs["logits"].shape), theirs["logits"])
        golden.close(output.losses["class"], theirs["loss.cross_entropy"])


@torch.no_grad()
def test_the_sentence_of_another_layer(folder: Path) -> None:
    outputs = golden.load(folder, "outputs_f32")
    others = [key for key in outputs if key.startswith("layer_id_")]
    assert others
    for key in others:
        model = model_of(folder, "main", SHORT).eval()
        model.encoder.config.host_layer = int(key.split(".")[0].removeprefix("layer_id_"))
        logits = model(batch_of(folder, "main", SHORT)).class_logits
        golden.close(logits.view(outputs[key].shape), outputs[key])


@torch.no_grad()
def test_statistics_after_one_forward(folder: Path) -> None:
    outputs = golden.load(folder, "outputs_f64")
    for name in {key.split(".")[0] for key in outputs if ".train.after." in key}:
        theirs = golden.part(outputs, f"{name}.train.after.")
        model = model_of(folder, name).train()
        model(batch_of(folder, name))
        buffers = model.state_dict()
        for key, value in to_ours(theirs, keys.rules(model.encoder.config, 0)).items():
            if key.endswith("num_batches_tracked"):
                assert int(buffers[key]) == int(value)
            else:
                golden.close(buffers[key], value)


def test_gradients(folder: Path) -> None:
    grads = golden.load(folder, "grads_f64")
    cases = sorted({tuple(key.split(".")[:2]) for key in grads})
    assert cases
    for name, mode in cases:
        model = model_of(folder, name).train(mode == "train").requires_grad_(True)
        model(batch_of(folder, name)).losses["class"].backward()
        theirs = golden.part(grads, f"{name}.{mode}.")
        compare_gradients(folder, model, theirs, training=mode == "train")


def compare_gradients(
    folder: Path, model: KnowledgeForTask, theirs: dict[str, Tensor], *, training: bool
) -> None:
    gradients = {k: p.grad for k, p in model.named_parameters()}
    n_hidden = model.config.head["layers"]
    skipped = [f"{keys.MODEL}fc.layers.{n_hidden}-Linear.bias"]
    skipped += [f"{keys.MODEL}pooler.w_vs.bias"] * (n_hidden == 0)
    rules = keys.rules(model.encoder.config, n_hidden)
    pad = config_of(folder, "main")["lm_config"]["pad_token_id"]
    for key, value in theirs.items():
        if key in skipped:
            continue
        if key == keys.TABLE:
            table = gradients["encoder.entity_vectors.weight"]
            assert table is not None
            ours = table[N_SPECIAL_ROWS:].clone()
            ours[0] += table[PAD_ROW]
            assert not value[len(ours) :].any()
            value = value[: len(ours)]
        else:
            ours = gradients[next(iter(to_ours({key: value}, rules)))]
        if key.endswith("embeddings.word_embeddings.weight"):
            ours = ours.clone()
            ours[pad] = 0
        golden.close_gradient(key, ours, value, training=training)


# ---- what the loader makes ----------------------------------------------------------------------
def test_edges(folder: Path, name: str) -> None:
    inputs, settings = golden.load(folder, "inputs"), config_of(folder, name)
    batch = batch_of(folder, name)
    assert settings["n_etype"] == n_edge_types(settings["n_rel"], all_entities=joins_all(settings))
    graph = model_of(folder, name).encoder.typed_graph(batch)
    n_places = batch.subgraph_ids.shape[1] + 1
    ours = golden.edges_by_row(graph, n_places, len(batch))
    assert ours == golden.edges_of_rows(inputs, prefix_of(folder, name))


def test_nodes(folder: Path) -> None:
    """The examples' concepts, cut to the places that there are; types, and the context's mask."""
    inputs, settings = golden.load(folder, "inputs"), config_of(folder, "main")
    batch, examples = batch_of(folder, "main"), golden.read(folder, "examples")["examples"]
    most = settings["max_node_num"] - 1
    for row, example in enumerate(examples):
        ids = batch.subgraph_ids[row]
        assert (ids[ids != PAD_ROW] - N_SPECIAL_ROWS).tolist() == example["concepts"][:most]
    special = golden.of_all(inputs["special_nodes_mask"])
    assert special[:, 0].all()
    assert not special[:, 1:].any()


@pytest.mark.parametrize("kind", ["text", "text_short"])
def test_texts(folder: Path, kind: str, tmp_path: Path) -> None:
    """The tokenizer's own pairs, cut at the longer text; a fact stands before its question."""
    config, examples = golden.read(folder, "config"), golden.read(folder, "examples")
    vocabulary = config["vocabulary"]
    tokenizer = bert(vocabulary, tmp_path) if config["lm"] == "bert" else byte_level(vocabulary)
    length = config["max_seq_len" if kind == "text" else "short_max_seq_len"]
    pairs = [
        (" ".join([*([fact] if (fact := s.get("fact1")) else []), s["question"]["stem"]]),
         f" {choice['text']}")
        for s in examples["statements"]
        for choice in s["question"]["choices"]
    ]  # fmt: skip
    ours = tokenizer(
        *map(list, zip(*pairs, strict=True)), padding="max_length", truncation="longest_first",
        max_length=length, return_special_tokens_mask=True, return_token_type_ids=True,
        return_tensors="pt",
    )  # fmt: skip
    theirs = texts_of(folder, kind)
    assert torch.equal(ours["input_ids"], theirs["input_ids"])
    assert torch.equal(ours["attention_mask"], theirs["input_mask"])
    assert torch.equal(ours["token_type_ids"], theirs["segment_ids"])
    assert torch.equal(ours["special_tokens_mask"].bool(), theirs["output_mask"])
