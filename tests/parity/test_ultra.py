"""ULTRA's graphs, layers, scores, losses, gradients and ranks against the original's.

`kernel` sends messages to the first end of an edge, as the released weights were trained;
`fallback` to the second.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from kept.evaluation.ranking import Filter, RankCounts, rank
from kept.kge.ultra.graphs import Edges, relation_graph, without_easy
from kept.kge.ultra.networks import (
    ConditionalLayer,
    LayerOptions,
    NetworkOptions,
    Ultra,
)
from kept.kge.ultra.training import (
    UltraScorer,
    strict_negatives,
    ultra_loss,
    unconnected_entities,
)
from tests.parity.stored_digits import half_unit

METHOD = "ultra"
ENDS = {"kernel": "first", "fallback": "second"}
ATOL = {torch.float64: 1e-10, torch.float32: 1e-5}


def layers_of(folder: Path) -> Iterator[tuple[str, str]]:
    for record in json.loads((folder / "layers.json").read_text("utf-8")):
        for direction in record["directions"]:
            yield record["name"], direction


PARAMETERS = {"layer": layers_of}


@pytest.fixture(scope="module")
def layer(request: pytest.FixtureRequest) -> tuple[str, str]:
    result: tuple[str, str] = request.param
    return result


@dataclass(frozen=True, eq=False)
class Golden:
    folder: Path
    config: dict[str, Any]
    graph: dict[str, Any]

    def load(self, name: str) -> dict[str, Tensor]:
        return load_file(self.folder / f"{name}.safetensors")

    @property
    def sizes(self) -> dict[str, int]:
        return {
            "n_entities": self.config["num_entities"],
            "n_relations": self.config["num_relations_direct"],
        }

    @property
    def edges(self) -> Edges:
        return Edges.of(self.graph["triples"], **self.sizes)

    def options(self, direction: str, name: str, relations: str, **others: Any) -> NetworkOptions:
        result = {
            "width": self.config["dim"], "message": self.config["message_func"],
            "aggregation": self.config["aggregate_func"], "to": ENDS[direction],
            "layer_norm": self.config["layer_norm"],
        }  # fmt: skip
        plain = {"residual": self.config["short_cut"], "concatenate": False} | others
        result["layer_norm"] = plain.pop("layer_norm", result["layer_norm"])
        return NetworkOptions(
            layer=LayerOptions(relations=relations, **result),  # type: ignore[arg-type]
            n_layers=self.config[f"{name}_layers"],
            **plain,
        )

    def model(self, direction: str, dtype: torch.dtype, **others: Any) -> Ultra:
        model = Ultra(
            self.options(direction, "relation", "independent", **others),
            self.options(direction, "entity", "projected", **others),
        ).to(dtype)
        if not others:
            model.load_state_dict({k: v.to(dtype) for k, v in self.load("state_dict").items()})
        return model


@pytest.fixture(scope="module")
def golden(folder: Path) -> Golden:
    config, graph = (
        json.loads((folder / f"{name}.json").read_text("utf-8")) for name in ("config", "graph")
    )
    return Golden(folder, config, graph)


def equal(compared: Any, name: str, actual: Tensor, expected: Tensor) -> None:
    compared.equal(name, actual.tolist(), expected.tolist())


def close(compared: Any, name: str, actual: Tensor, expected: Tensor, *, atol: float) -> None:
    compared.close(name, actual.detach(), expected, atol=atol)


def questions(queries: Tensor, side: str) -> tuple[Tensor, Tensor, Tensor]:
    """Anchors, relations and whether heads are asked for, of rows (head, tail, relation)."""
    is_head = torch.full((len(queries),), side == "head")
    return queries[:, 1 if side == "head" else 0], queries[:, 2], is_head


def released_questions(batch: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Anchors, relations, whether heads are asked for, candidates; as the released code has it.

    A row asks for tails where all of its heads are one.
    """
    head, tail, relation = batch.unbind(2)
    is_head = ~(head == head[:, :1]).all(1)
    anchors = torch.where(is_head, tail[:, 0], head[:, 0])
    return anchors, relation[:, 0], is_head, torch.where(is_head[:, None], head, tail)


def triples_of(batch: Tensor) -> Tensor:
    """(head, tail, relation) in any shape as rows (head, relation, tail)."""
    return batch.reshape(-1, 3)[:, [0, 2, 1]]


def test_edges(golden: Golden, compared: Any) -> None:
    edges = golden.edges
    compared.equal("edge_index", edges.ends.tolist(), golden.graph["edge_index"])
    compared.equal("edge_type", edges.types.tolist(), golden.graph["edge_type"])
    between = relation_graph(edges)
    compared.equal(
        "relation_graph_edge_index",
        between.ends.tolist(),
        golden.graph["relation_graph_edge_index"],
    )
    compared.equal(
        "relation_graph_edge_type", between.types.tolist(), golden.graph["relation_graph_edge_type"]
    )
    small = golden.graph["small"]
    n_entities = 1 + max(max(h, t) for h, _, t in small["triples"])
    relations = relation_graph(
        Edges.of(small["triples"], n_entities=n_entities, n_relations=small["num_relations_direct"])
    )
    for kind, (name, pairs) in enumerate(small["relation_graph"].items()):
        compared.equal(name, relations.ends[:, relations.types == kind].T.tolist(), pairs)


@pytest.mark.parametrize("direction", ENDS)
@pytest.mark.parametrize("dtype", ATOL, ids=str)
def test_scores(golden: Golden, direction: str, dtype: torch.dtype, compared: Any) -> None:
    expected = golden.load(f"forward_{direction}_f{torch.finfo(dtype).bits}")
    model, edges = golden.model(direction, dtype), golden.edges
    between, queries = relation_graph(edges), expected["queries_h_t_r"]
    atol = ATOL[dtype]
    for side in ("tail", "head"):
        anchors, relations, is_head = questions(queries, side)
        close(
            compared,
            f"{side}.scores", model(edges, between, anchors, relations, is_head),
            expected[f"{side}.scores"], atol=atol,
        )  # fmt: skip
        vectors = model.relation_model(between, relations)
        close(
            compared,
            f"{side}.relation_representations", vectors,
            expected[f"{side}.relation_representations"], atol=atol,
        )  # fmt: skip


@pytest.mark.parametrize("direction", ENDS)
def test_states_of_every_layer(golden: Golden, direction: str, compared: Any) -> None:
    expected = golden.load(f"forward_{direction}_f64")
    model, edges = golden.model(direction, torch.float64), golden.edges
    between = relation_graph(edges)
    for side in ("tail", "head"):
        anchors, relations, is_head = questions(expected["queries_h_t_r"], side)
        rows = torch.arange(len(relations))
        ones = torch.ones(len(relations), golden.config["dim"], dtype=torch.float64)
        start = torch.zeros(len(relations), between.n_nodes, ones.shape[1], dtype=torch.float64)
        start[rows, relations] = 1
        vectors = model.relation_model(between, relations)
        query = vectors[rows, relations + is_head * golden.sizes["n_relations"]]
        boundary = torch.zeros(len(rows), edges.n_nodes, ones.shape[1], dtype=torch.float64)
        boundary[rows, anchors] = query
        for name, network, graph, first, queries, relation_inputs in (
            ("relation", model.relation_model, between, start, ones, None),
            ("entity", model.entity_model, edges, boundary, query, vectors),
        ):
            actual = {f"{side}.{name}.boundary": first}
            every, states = network.hidden(first, queries, graph, relation_inputs), first
            for i, (step, hidden) in enumerate(zip(network.layers, every, strict=True)):
                assert isinstance(step, ConditionalLayer)
                relation_vectors = step.relation_vectors(queries, relation_inputs)
                actual |= {
                    f"{side}.{name}.layer{i}.hidden": hidden,
                    f"{side}.{name}.layer{i}.projected_relations": relation_vectors,
                    f"{side}.{name}.layer{i}.aggregated": step.aggregate(
                        states, relation_vectors, first, graph
                    ),
                    f"{side}.{name}.layer{i}.conv": step(states, relation_vectors, first, graph),
                }
                states = hidden
            for key in actual.keys() & expected.keys():
                close(compared, key, actual[key], expected[key], atol=ATOL[torch.float64])


def test_layers(golden: Golden, layer: tuple[str, str], compared: Any) -> None:
    """Every message, aggregation and kind of relation vectors, with their gradients."""
    name, direction = layer
    data = golden.load("layers_f64")
    (record,) = (t for t in json.loads((golden.folder / "layers.json").read_text("utf-8"))
               if t["name"] == name)  # fmt: skip
    message, aggregation, relations, _ = name.split(".")
    n_types = int(data["edge_type"].max()) + 1
    n_types = max(n_types, data["relation_representations"].shape[1])
    module = ConditionalLayer(
        LayerOptions(
            width=data["input"].shape[2], message=message, aggregation=aggregation,  # type: ignore[arg-type]
            relations=relations, layer_norm=record["layer_norm"], to=ENDS[direction],  # type: ignore[arg-type]
        ),
        n_types,
    ).double()  # fmt: skip
    prefix = f"{name}.param."
    module.load_state_dict(
        {k.removeprefix(prefix): v for k, v in data.items() if k.startswith(prefix)}
    )
    edges = Edges(
        data["edge_index"], data["edge_type"], data["input"].shape[1], n_types,
        data["edge_weight"] if record["edge_weight"] else None,
    )  # fmt: skip
    states = data["input"].clone().requires_grad_()
    vectors = module.relation_vectors(data["query"], data["relation_representations"])
    gathered = module.aggregate(states, vectors, data["boundary"], edges)
    output = module(states, vectors, data["boundary"], edges)
    actual = {"aggregated": gathered, "output": output}
    (output * data["coefficient"]).sum().backward()
    actual["grad.input"] = states.grad
    actual |= {f"grad.{n}": p.grad for n, p in module.named_parameters()}
    prefix = f"{name}.{direction}."
    expected = {k.removeprefix(prefix): v for k, v in data.items() if k.startswith(prefix)}
    assert {"aggregated", "output"} <= expected.keys() <= actual.keys()
    for key, value in expected.items():
        close(compared, f"{prefix}{key}", actual[key], value, atol=ATOL[torch.float64])


def test_negatives_and_easy_edges(golden: Golden, compared: Any) -> None:
    data, edges = golden.load("training_batch"), golden.edges
    batch = triples_of(data["batch_h_t_r"])
    known = Filter({"train": np.array(golden.graph["triples"])}, **golden.sizes)
    n_tails = len(batch) // 2
    for side in ("tail", "head"):
        free = unconnected_entities(known, side, batch)  # type: ignore[arg-type]
        equal(compared, f"{side}_mask", free, data[f"{side}_mask"])
        part = slice(0, n_tails) if side == "tail" else slice(n_tails, None)
        chosen = strict_negatives(free[part], data[f"strict.rand_{side}"])
        expected = data["strict.batch"][part, 1:, 1 if side == "tail" else 0]
        equal(compared, f"strict.{side}", chosen, expected)
    for kind, batch_name in (("strict", "batch"), ("random", "batch_used_for_training")):
        for rule in ("relation_specific", "one_hop"):
            kept = without_easy(
                edges, triples_of(data[f"{kind}.{batch_name}"]), one_hop=rule == "one_hop"
            )
            left, key = edges.only(kept), f"easy_edges.{rule}.{kind}"
            actual = {"kept_mask": kept, "edge_index": left.ends, "edge_type": left.types}
            for name, value in actual.items():
                equal(compared, f"{key}.{name}", value, data[f"{key}.{name}"])


def predictions(golden: Golden, direction: str, batch: Tensor, kept: Tensor | None) -> Tensor:
    edges = golden.edges
    model = golden.model(direction, torch.float64)
    anchors, relations, is_head, candidates = released_questions(batch)
    graph = edges if kept is None else edges.only(kept)
    scores: Tensor = model(graph, relation_graph(edges), anchors, relations, is_head, candidates)
    return scores


@pytest.mark.parametrize("direction", ENDS)
def test_losses(golden: Golden, direction: str, compared: Any) -> None:
    data, expected = golden.load("training_batch"), golden.load("training_loss")
    edges, batch = golden.edges, data["strict.batch"]
    kept = without_easy(edges, triples_of(batch))
    scores = predictions(golden, direction, batch, kept)
    named = [k for k in expected if k.startswith(f"{direction}.t") and k.endswith(".loss")]
    assert named
    for key in named:
        prefix = key.removesuffix(".loss")
        rows = ultra_loss(scores, float(prefix.removeprefix(f"{direction}.t")))
        close(compared, f"{prefix}.pred", scores, expected[f"{prefix}.pred"], atol=1e-10)
        close(compared, f"{prefix}.loss_rows", rows, expected[f"{prefix}.loss_rows"], atol=1e-10)
        close(compared, key, rows.mean(), expected[key], atol=1e-10)
    random = data["random.batch_used_for_training"]
    for name, triples, left in (
        ("one_hop", batch, without_easy(edges, triples_of(batch), one_hop=True)),
        ("eval_mode", batch, None),
        ("random_batch", random, without_easy(edges, triples_of(random))),
    ):
        key = f"{direction}.{name}.pred"
        close(
            compared, key, predictions(golden, direction, triples, left), expected[key], atol=1e-10
        )


@pytest.mark.parametrize("direction", ENDS)
def test_gradients(golden: Golden, direction: str, compared: Any) -> None:
    data, expected = golden.load("training_batch"), golden.load("grads")
    edges, batch = golden.edges, data["strict.batch"]
    settings = {k.split(".t")[1][:3] for k in expected if k.startswith(f"{direction}.t")}
    assert settings
    for setting in sorted(settings):
        model = golden.model(direction, torch.float64)
        scores = model(
            edges.only(without_easy(edges, triples_of(batch))), relation_graph(edges),
            *released_questions(batch),
        )  # fmt: skip
        ultra_loss(scores, float(setting)).mean().backward()
        prefix = f"{direction}.t{setting}."
        parameters = dict(model.named_parameters())
        for key in (k for k in expected if k.startswith(prefix)):
            close(
                compared, key, parameters[key.removeprefix(prefix)].grad, expected[key], atol=1e-10
            )


def test_an_optimiser_step(golden: Golden, compared: Any) -> None:
    """By the kernel, in float32; a batch of theirs, temperature 1, AdamW as torch has it."""
    expected, edges = golden.load("optimizer_step"), golden.edges
    model = golden.model("kernel", torch.float32)
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-4)
    kept = without_easy(edges, triples_of(expected["batch"]))
    scores = model(edges.only(kept), relation_graph(edges), *released_questions(expected["batch"]))
    loss = ultra_loss(scores, 1.0).mean()
    loss.backward()
    optimiser.step()
    close(compared, "loss", loss, expected["loss"], atol=1e-5)
    for name, parameter in model.named_parameters():
        close(compared, f"after.{name}", parameter, expected[f"after.{name}"], atol=1e-5)


@pytest.mark.parametrize("direction", ENDS)
def test_all_layers_read_together(golden: Golden, direction: str, compared: Any) -> None:
    data, edges = golden.load("concat_hidden_f64"), golden.edges
    model = golden.model(
        direction, torch.float64, concatenate=True, residual=False, layer_norm=False
    )
    model.load_state_dict(
        {k.removeprefix("param."): v for k, v in data.items() if k.startswith("param.")}
    )
    between = relation_graph(edges)
    queries = golden.load(f"forward_{direction}_f64")["queries_h_t_r"]
    for side in ("tail", "head"):
        anchors, relations, is_head = questions(queries, side)
        scores = model(edges, between, anchors, relations, is_head)
        key = f"{direction}.{side}.scores"
        close(compared, key, scores, data[key], atol=1e-10)
    vectors = model.relation_model(between, queries[:, 2])
    key = f"{direction}.relation_representations"
    close(compared, key, vectors, data[key], atol=1e-10)


@pytest.mark.parametrize("direction", ENDS)
def test_ranks(golden: Golden, direction: str, compared: Any) -> None:
    record = json.loads((golden.folder / "evaluation.json").read_text("utf-8"))
    queries, sizes = np.array(golden.graph["test"]), golden.sizes
    scorer = UltraScorer(golden.model(direction, torch.float32), golden.graph["triples"], **sizes)
    known = Filter({"known": np.array(record["filter_triples"])}, **sizes)
    for side in ("tail", "head"):
        free = unconnected_entities(known, side, torch.from_numpy(queries))  # type: ignore[arg-type]
        compared.equal(
            f"{side}_candidate_mask", free.int().tolist(), record[f"{side}_candidate_mask"]
        )
        for name, filter_ in (("", known), ("_unfiltered", Filter({}, **sizes))):
            result = rank(
                scorer, queries, filter=filter_, ties="pessimistic", directions=(side,),  # type: ignore[arg-type]
                candidates="all",
            )  # fmt: skip
            # without a filter the original counts the answer as above itself
            actual = (result.ranks.astype(int) + (filter_ is not known)).tolist()
            compared.equal(f"{side}_ranks{name}", actual, record[direction][f"{side}_ranks{name}"])
    result = rank(scorer, queries, filter=known, ties="pessimistic", directions=("head", "tail"),
                  candidates="all")  # fmt: skip
    metrics = record[direction]["metrics"]
    for name, value in result.metrics().items():
        atol = 1e-5 + half_unit(metrics)
        close(compared, name, torch.tensor(value), torch.tensor(metrics[name]), atol=atol)


def test_ties_count_against_the_answer(golden: Golden, compared: Any) -> None:
    record = json.loads((golden.folder / "evaluation.json").read_text("utf-8"))["ties"]
    rows = zip(record["scores"], record["target"], record["mask"], record["rank"], strict=True)
    for scores, target, mask, expected in rows:
        if None in scores:  # a truth that is no number: refused before it is ranked
            continue
        others = [s for i, (s, kept) in enumerate(zip(scores, mask, strict=True))
                  if kept and i != target]  # fmt: skip
        counts = RankCounts(
            np.array([sum(s > scores[target] for s in others)]),
            np.array([sum(s == scores[target] for s in others)]),
        )
        compared.equal("rank", counts.ranks("pessimistic").astype(int).tolist(), [expected])
