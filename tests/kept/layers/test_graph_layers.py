"""Parts around the layers of QA-GNN and GreaseLM, against their formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from kept.errors import ConfigError
from kept.layers.graph_layers import (
    MLP,
    AttentionPooling,
    GraphLayers,
    NodeFeatures,
    gelu,
    normalised_scores,
)
from kept.layers.transform import Transform
from kept.layers.typed_graph import N_NODE_TYPES


def test_scores_are_differences_over_their_mean_size() -> None:
    scores = torch.tensor([[0.0, 2.0, 6.0, 99.0], [1.0, 1.0, 9.0, 9.0]])
    real = torch.tensor([[True, True, True, False], [True, True, False, False]])
    mean = (2 + 6) / 3
    expected = torch.tensor(
        [[0.0, -2 / (mean + 1e-5), -6 / (mean + 1e-5), 0.0], [0.0, 0.0, 0.0, 0.0]]
    )
    torch.testing.assert_close(normalised_scores(scores, real), expected)


def test_features_are_of_the_type_and_of_sines_of_the_score() -> None:
    torch.manual_seed(0)
    features = NodeFeatures(width=8)
    types, scores = torch.tensor([[0, N_NODE_TYPES - 1]]), torch.tensor([[0.0, 0.7]])
    features_ = features(types, scores)
    assert features_.shape == (1, 2, 8)
    for position, (kind, score) in enumerate([(0, 0.0), (N_NODE_TYPES - 1, 0.7)]):
        one_hot = torch.zeros(N_NODE_TYPES)
        one_hot[kind] = 1
        sines = torch.tensor([math.sin(score * 1.1**i) for i in range(4)])
        expected = torch.cat([gelu(features.types(one_hot)), gelu(features.scores(sines))])
        torch.testing.assert_close(features_[0, position], expected)


@pytest.mark.parametrize("x", [-2.0, -0.3, 0.0, 1.5])
def test_gelu_is_its_tanh_approximation(x: float) -> None:
    expected = 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    assert float(gelu(torch.tensor(x))) == pytest.approx(expected, abs=1e-6)


def pooling() -> AttentionPooling:
    torch.manual_seed(0)
    return AttentionPooling(width=6, text_width=5, heads=2).eval()


def test_pooling_attends_to_what_is_there() -> None:
    layer, text, states = pooling(), torch.randn(3, 5), torch.randn(3, 4, 6)
    mask = torch.tensor([[True, False, True, True], [False, True, False, False], [False] * 4])
    shares = layer.attention(text, states, mask)
    assert shares.shape == (3, 2, 4)
    query, keys = layer.queries(text), layer.keys(states)
    for row, places in ((0, [0, 2, 3]), (1, [1]), (2, [0])):
        for head in range(2):
            at = slice(3 * head, 3 * head + 3)
            scores = torch.stack([query[row, at] @ keys[row, j, at] for j in places])
            expected = torch.zeros(4)
            expected[places] = (scores / math.sqrt(3)).softmax(0)
            torch.testing.assert_close(shares[row, head], expected)
    values = layer.values(states)
    sums = [shares[:, h].unsqueeze(1) @ values[:, :, 3 * h : 3 * h + 3] for h in range(2)]
    torch.testing.assert_close(layer(text, states, mask), torch.cat(sums, -1)[:, 0])


def test_pooling_drops_out_in_training_whatever_the_settings() -> None:
    layer = pooling().train()
    assert layer.dropout.p == 0.1
    with pytest.raises(ConfigError, match="graph_width 6 is not a multiple of pooling_heads 4"):
        AttentionPooling(width=6, text_width=5, heads=4)


@pytest.mark.parametrize("with_norm", [True, False])
def test_hidden_layers_and_a_linear_one(with_norm: bool) -> None:
    mlp = MLP(sizes=[3, 4, 5, 2], dropout=0.25, with_norm=with_norm)
    kinds = [type(step) for step in mlp.steps]
    hidden = [nn.Linear, nn.Dropout, *([nn.LayerNorm] if with_norm else []), nn.GELU]
    assert kinds == [*hidden, *hidden, nn.Linear]
    assert {step.p for step in mlp.steps if isinstance(step, nn.Dropout)} == {0.25}
    assert [s.out_features for s in mlp.steps if isinstance(s, nn.Linear)] == [4, 5, 2]
    only = MLP(sizes=[3, 2], dropout=0.0, with_norm=with_norm)
    values = torch.randn(7, 3)
    torch.testing.assert_close(only(values), only.steps[0](values))
    (gelus,) = {step.approximate for step in mlp.steps if isinstance(step, nn.GELU)}
    assert gelus == "tanh"


@pytest.mark.parametrize("width", [0, 6, -4])
def test_a_width_that_its_heads_cannot_share_is_refused(width: int) -> None:
    with pytest.raises(ConfigError, match=f"graph_width is {width}; use a multiple of 4"):
        GraphLayers(width=width, n_layers=1, n_edge_types=2, dropout=0.0)


def test_the_output_joins_what_went_in_and_what_came_out() -> None:
    layers = GraphLayers(width=4, n_layers=2, n_edge_types=2, dropout=0.0).eval()
    before, after = torch.randn(1, 3, 4), torch.randn(1, 3, 4)
    expected = gelu(layers.first(before) + layers.last(after))
    torch.testing.assert_close(layers.combined(before, after), expected)
    assert len(layers.layers) == 2


def test_the_transform_of_a_pretraining_head() -> None:
    transform = Transform(width=3, embedding=5, epsilon=0.5, dropout=0.25)
    assert (transform.layer_norm.eps, transform.dropout.p) == (0.5, 0.25)
    states = torch.randn(2, 3)
    expected = transform.layer_norm(nn.functional.gelu(transform.dense(states)))
    torch.testing.assert_close(transform.eval()(states), expected)
    assert Transform(width=3, embedding=5).dropout.p == 0
