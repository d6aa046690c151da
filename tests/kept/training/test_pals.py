"""Projected attention beside a host's layer, against the equation written out."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch

from kept import hosts
from kept.adapters.inside import put_inside
from kept.adapters.pals import PALOptions
from kept.batches import Visibility
from kept.errors import ConfigError, HostError
from tests.kept.tiny_hosts import BERT_LIKE, FAMILIES, tiny_host

INSIDE = {"pals": {"width": 6, "heads": 2}}


def _host(family: str = "bert", attention: str = "sdpa") -> Any:
    host = tiny_host(family, attention)
    put_inside(host, INSIDE)
    torch.manual_seed(3)
    torch.nn.init.normal_(host.encoder.pal.up.weight)
    return host.eval()


@pytest.mark.parametrize("family", sorted({*FAMILIES} - {*BERT_LIKE}))
def test_layers_of_other_shapes_take_no_pals(family: str) -> None:
    with pytest.raises(HostError, match=f"parts of BERT's layers, and those of a {family}"):
        _host(family)


@pytest.mark.parametrize("family", BERT_LIKE)
def test_a_layer_with_its_pal_is_the_equation(family: str) -> None:
    host = _host(family)
    layer, shared = hosts.layers(host)[0], host.encoder.pal
    hidden = torch.randn(1, 4, 16)
    seen = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1]]).bool()[None]
    states = hosts.run(host, hidden, Visibility(seen))[1]

    inner = hidden[0] @ shared.down.weight.T
    pal = layer.pal
    q, k, v = (inner @ part.weight.T + part.bias for part in (pal.query, pal.key, pal.value))
    rows = []
    for i in range(4):
        heads = []
        for h in (slice(0, 3), slice(3, 6)):
            places = seen[0, i].nonzero()[:, 0].tolist()
            scores = torch.stack([q[i, h] @ k[j, h] / math.sqrt(3) for j in places])
            shares = scores.exp() / scores.exp().sum()
            heads.append(sum(s * v[j, h] for s, j in zip(shares, places, strict=True)))
        rows.append(torch.cat(heads) @ shared.up.weight.T)
    attended = layer.attention(hidden, hosts.attention_mask(host, Visibility(seen)))[0]
    dense = layer.output.dense(layer.intermediate(attended))
    expected = layer.output.LayerNorm(dense + attended + torch.stack(rows)[None])
    torch.testing.assert_close(states, expected, rtol=1e-4, atol=1e-5)


def test_eager_attention_and_a_copy_say_the_same() -> None:
    host = _host()
    hidden, seen = torch.randn(2, 4, 16), Visibility(torch.ones(2, 4, 4).bool().tril())
    expected = hosts.run(host, hidden, seen)
    eager = _host(attention="eager")
    eager.load_state_dict(host.state_dict())
    copied = copy.deepcopy(host)
    with torch.no_grad():
        host.encoder.pal.up.weight.zero_()
    for other in (eager, copied):
        for ours, theirs in zip(expected, hosts.run(other, hidden, seen), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match="width 6 and heads 4"):
        PALOptions(width=6, heads=4)
