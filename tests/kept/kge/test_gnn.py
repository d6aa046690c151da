"""Graph layers against loops over the papers' formulas, torch-geometric and dgl."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.nn import RGCNConv

from kept.errors import ConfigError
from kept.kge.encoded import table_scorer
from kept.kge.gnn.networks import (
    COMPOSITIONS,
    DECODERS,
    RGCN,
    CompGCN,
    CompGCNLayer,
    EntityTable,
    GraphModel,
    MessageGraph,
    NoGraph,
    RelationFeatures,
    RGCNLayer,
    TextFeatures,
)
from kept.kge.gnn.recipes import make_layers
from kept.kge.kinds import FORMULAS
from kept.kge.scorers import make_scorer

N_ENTITIES, N_RELATIONS, WIDTH = 6, 3, 4
TRIPLES = [(0, 0, 1), (2, 0, 1), (3, 1, 1), (0, 0, 1), (1, 2, 4), (4, 1, 0), (3, 1, 3)]
# a repeated triple, a loop, several edges of one type at one target; entity 5 stands alone


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def graph(text: Tensor | None = None) -> MessageGraph:
    return MessageGraph.of(
        np.array(TRIPLES), n_entities=N_ENTITIES, n_relations=N_RELATIONS, text=text
    )


def states() -> Tensor:
    return torch.randn(N_ENTITIES, WIDTH, generator=draws(1), dtype=torch.float64)


def edges() -> list[tuple[int, int, int]]:
    """Source, type, target."""
    inverse = [(t, r + N_RELATIONS, h) for h, r, t in TRIPLES]
    return [*TRIPLES, *inverse]


def rgcn_layer() -> RGCNLayer:
    layer = RGCNLayer(
        width=WIDTH, out=5, n_types=2 * N_RELATIONS, n_bases=2, generator=draws()
    ).double()
    with torch.no_grad():
        layer.bias.normal_(generator=draws(3))
    return layer


def test_rgcn_layer_is_the_formula():
    layer, before = rgcn_layer(), states()
    expected = []
    for target in range(N_ENTITIES):
        total = before[target] @ layer.root + layer.bias
        for type_ in range(2 * N_RELATIONS):
            sources = [s for s, t, e in edges() if t == type_ and e == target]
            weight = sum(
                layer.coefficients[type_, b] * layer.bases[b] for b in range(len(layer.bases))
            )
            for source in sources:
                total = total + before[source] @ weight / len(sources)
        expected.append(total)
    torch.testing.assert_close(layer(before, graph()), torch.stack(expected), rtol=0, atol=1e-12)


def test_rgcn_layer_equals_torch_geometric():
    layer, before = rgcn_layer(), states()
    theirs = RGCNConv(WIDTH, 5, 2 * N_RELATIONS, num_bases=2).double()
    theirs.load_state_dict({
        "weight": layer.bases, "comp": layer.coefficients, "root": layer.root, "bias": layer.bias,
    })  # fmt: skip
    got = theirs(before, graph().ends, graph().types)
    torch.testing.assert_close(layer(before, graph()), got, rtol=0, atol=1e-12)


def test_rgcn_layer_equals_dgl():
    dgl: Any = pytest.importorskip("dgl", reason="dgl is not installed (pip install kept[dgl])")
    from dgl.nn import RelGraphConv

    layer, before = rgcn_layer(), states()
    theirs = RelGraphConv(WIDTH, 5, 2 * N_RELATIONS, regularizer="basis", num_bases=2).double()
    theirs.load_state_dict({
        "linear_r.W": layer.bases, "linear_r.coeff": layer.coefficients,
        "loop_weight": layer.root, "h_bias": layer.bias,
    })  # fmt: skip
    same = dgl.graph((graph().ends[0], graph().ends[1]), num_nodes=N_ENTITIES)
    norm = graph().type_shares[:, None].double()
    got = theirs(same, before, graph().types, norm)
    torch.testing.assert_close(layer(before, graph()), got, rtol=0, atol=1e-12)


def composed(kind: str, state: list[float], relation: list[float]) -> list[float]:
    n = len(state)
    if kind == "corr":
        return [sum(state[i] * relation[(i + k) % n] for i in range(n)) for k in range(n)]
    if kind == "mult":
        return [a * b for a, b in zip(state, relation, strict=True)]
    return [a - b for a, b in zip(state, relation, strict=True)]


@pytest.mark.parametrize("width", [4, 5])
@pytest.mark.parametrize("kind", COMPOSITIONS)
def test_compositions_are_the_formulas(kind: str, width: int):
    one, other = torch.randn(2, 3, width, generator=draws(5), dtype=torch.float64)
    expected = [composed(kind, a, b) for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    assert COMPOSITIONS[kind](one, other).tolist() == [pytest.approx(row) for row in expected]


@pytest.mark.parametrize("kind", COMPOSITIONS)
def test_compgcn_layer_is_the_formula(kind: str):
    layer = CompGCNLayer(width=WIDTH, out=3, composition=kind, generator=draws()).double()
    before = states()
    relations = torch.randn(2 * N_RELATIONS, WIDTH, generator=draws(2), dtype=torch.float64)
    expected = []
    for target in range(N_ENTITIES):
        loop = composed(kind, before[target].tolist(), layer.loop[0].tolist())
        total = torch.tensor(loop, dtype=torch.float64) @ layer.maps[2]
        for way in (0, 1):
            mine = [e for e in edges() if e[1] // N_RELATIONS == way]
            for source, type_, end in mine:
                if end != target:
                    continue
                out = sum(1 for e in mine if e[0] == source)
                into = sum(1 for e in mine if e[2] == target)
                message = composed(kind, before[source].tolist(), relations[type_].tolist())
                message_map = layer.maps[way] / math.sqrt(out * into)
                total = total + torch.tensor(message, dtype=torch.float64) @ message_map
        expected.append(total / 3 + layer.bias)
    got, named = layer(before, relations, graph())
    torch.testing.assert_close(got, torch.stack(expected), rtol=0, atol=1e-12)
    torch.testing.assert_close(named, relations @ layer.relation_map)


def test_relation_features_are_means_of_distinct_types():
    features = RelationFeatures(n_types=6, width=WIDTH, generator=draws())
    got = features(graph())
    for target in range(N_ENTITIES):
        types = sorted({t for _, t, e in edges() if e == target})
        mean = features.table[types].mean(0) if types else torch.zeros(WIDTH)
        torch.testing.assert_close(got[target], mean)


def model(
    kind: str = "compgcn", features: str = "relations", decoder: str = "distmult"
) -> GraphModel:
    random = draws(7)
    starts: dict[str, Any] = {
        "relations": RelationFeatures(n_types=6, width=WIDTH, generator=random),
        "table": EntityTable(n_entities=N_ENTITIES, width=WIDTH, generator=random),
        "text": TextFeatures(text_width=3, width=WIDTH, generator=random),
    }
    layers: dict[str, Any] = {
        "none": NoGraph(),
        "compgcn": CompGCN(
            width=WIDTH, n_layers=2, composition="sub", dropout=0.2, generator=random
        ),
        "rgcn": RGCN(width=WIDTH, n_types=6, n_layers=2, n_bases=2, dropout=0.2, generator=random),
    }
    return GraphModel(
        features=starts[features], layers=layers[kind], decoder=decoder, n_relations=3,
        width=WIDTH, generator=random,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["compgcn", "rgcn"])
def test_only_entities_within_reach_play_a_part(kind: str):
    """Zero gradient from a node that no path of two edges joins; permuted nodes permute."""
    text = torch.randn(N_ENTITIES, 3, generator=draws(8), requires_grad=True)
    network = model(kind, "text").eval()
    network(graph(text)).entities[5].sum().backward()
    assert text.grad is not None
    assert text.grad[5].abs().sum() > 0
    assert text.grad[:5].abs().sum() == 0
    order = torch.tensor([3, 5, 0, 4, 1, 2])  # new row i was row order[i]
    position_of = order.argsort()
    moved = torch.tensor(TRIPLES)
    moved[:, [0, 2]] = position_of[moved[:, [0, 2]]]
    other = MessageGraph.of(moved, n_entities=6, n_relations=3, text=text.detach()[order])
    torch.testing.assert_close(
        network.scorer(other).entities, network.scorer(graph(text)).entities.detach()[order]
    )


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("features", ["table", "relations", "text"])
@pytest.mark.parametrize("kind", ["none", "compgcn", "rgcn"])
def test_every_model_scores_as_its_decoder(kind: str, features: str, decoder: str):
    network = model(kind, features, decoder)
    text = torch.randn(N_ENTITIES, 3, generator=draws(8))
    scorer = network.scorer(graph(text))
    assert network.training
    triples = torch.tensor(TRIPLES)
    tails, heads = scorer.scores("tail", triples), scorer.scores("head", triples)
    for row, (head, relation, tail) in enumerate(TRIPLES):
        for entity in range(N_ENTITIES):
            h, r = scorer.entities[[head, entity]], scorer.relations[relation]
            t = scorer.entities[[entity, tail]]
            slow = [
                naive(decoder, *(v.tolist() for v in vs)) for vs in zip(h, (r, r), t, strict=True)
            ]
            assert float(tails[row, entity]) == pytest.approx(slow[0], abs=1e-4)
            assert float(heads[row, entity]) == pytest.approx(slow[1], abs=1e-4)


def naive(decoder: str, head: list[float], relation: list[float], tail: list[float]) -> float:
    rows = list(zip(head, relation, tail, strict=True))
    if decoder == "transe":
        return -math.sqrt(sum((h + r - t) ** 2 for h, r, t in rows))
    if decoder == "distmult":
        return sum(h * r * t for h, r, t in rows)
    half = len(rows) // 2
    pairs = [[complex(v[i], v[i + half]) for v in (head, relation, tail)] for i in range(half)]
    return sum((h * r * t.conjugate()).real for h, r, t in pairs)


def test_table_scorer_is_the_scorer_of_its_tables():
    for name in FORMULAS:
        scorer = make_scorer(name, n_entities=5, n_relations=2, width=4, generator=draws())
        table = table_scorer(name, scorer.entities.detach(), scorer.relations.detach())
        triples = torch.tensor([[0, 1, 2], [3, 0, 4]])
        for direction in ("head", "relation", "tail"):
            torch.testing.assert_close(
                table.scores(direction, triples), scorer.scores(direction, triples)
            )
    assert cmath.isfinite(float(table.score_triples(triples).sum()))


def test_faults_are_named():
    other = MessageGraph.of(np.array([(0, 0, 1)]), n_entities=2, n_relations=3)
    with pytest.raises(ConfigError, match="6 entities cannot start a graph of 2"):
        model("none", "table")(other)
    with pytest.raises(ConfigError, match="need a graph with text"):
        model("none", "text")(graph())
    with pytest.raises(ConfigError, match="2 text vectors for 6"):
        graph(torch.zeros(2, 3))
    with pytest.raises(ConfigError, match="'rotate' is none of"):
        model(decoder="rotate")
    with pytest.raises(ConfigError, match="'other' is unknown"):
        table_scorer("other", torch.zeros(2, 4), torch.zeros(1, 4))
    with pytest.raises(ConfigError, match="relations of width 2, not 4"):
        table_scorer("rotate", torch.zeros(2, 4), torch.zeros(1, 4))
    with pytest.raises(ConfigError, match="outside"):
        CompGCN(width=4, n_layers=1, composition="sub", dropout=1.0, generator=draws())


@pytest.mark.parametrize(
    ("name", "kind"), [("rgcn", RGCN), ("compgcn", CompGCN), ("none", NoGraph)]
)
def test_layers_by_name(name: str, kind: type) -> None:
    """Each name makes its message passing, of as many layers as are given."""
    layers = make_layers(
        name, width=WIDTH, n_types=2 * N_RELATIONS, n_layers=2, n_bases=2, composition="mult",
        dropout=0.0, generator=draws(),
    )  # fmt: skip
    assert type(layers) is kind
    if not isinstance(layers, NoGraph):
        assert len(layers.layers) == 2
