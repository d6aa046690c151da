"""Fusions of a host's states with those of its adapters."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kept.adapters.bottleneck import Bottleneck, HoulsbyOptions, insert_bottlenecks
from kept.adapters.fusion import ConcatFusion, make_fusion
from kept.errors import ConfigError
from tests.kept.tiny_hosts import BERT_LIKE, tiny_host

HOST = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
STATES = {"facts": HOST + 1, "words": 2 * HOST}


def test_none_and_sum() -> None:
    none = make_fusion("none", names=list(STATES), width=4)
    assert none(HOST, STATES) is HOST
    total = make_fusion("sum", names=list(STATES), width=4)
    torch.testing.assert_close(total(HOST, STATES), 4 * HOST + 1)
    assert total(HOST, {}) is HOST


def test_several_adapters_have_a_layer_each_and_one_for_all() -> None:
    fusion = make_fusion("concat", names=list(STATES), width=4)
    assert isinstance(fusion, ConcatFusion)
    parts = fusion.each_with_host(HOST, STATES)
    assert [*parts] == ["facts", "words"]
    for name, part in parts.items():
        layer = fusion.each[name]
        torch.testing.assert_close(part, layer(torch.cat([HOST, STATES[name]], -1)))
    joined = fusion.joint(torch.cat([parts["facts"], parts["words"]], -1))
    torch.testing.assert_close(fusion(HOST, STATES), joined)


def test_one_adapter_has_no_joint_layer() -> None:
    fusion = make_fusion("concat", names=["facts"], width=4)
    assert isinstance(fusion, ConcatFusion)
    assert isinstance(fusion.joint, nn.Identity)
    torch.testing.assert_close(
        fusion(HOST, STATES), fusion.each["facts"](torch.cat([HOST, STATES["facts"]], -1))
    )


def test_what_is_no_fusion() -> None:
    with pytest.raises(ConfigError, match=r"fusion is 'mean'; use one of \['concat', 'none', 's"):
        make_fusion("mean", names=["facts"], width=4)
    with pytest.raises(ConfigError, match="'concat' needs an adapter"):
        make_fusion("concat", names=[], width=4)
    make_fusion("sum", names=[], width=4)


@pytest.mark.parametrize("family", [*BERT_LIKE, "deberta-v2"])
def test_new_bottlenecks_change_nothing_until_they_are_trained(family: str) -> None:
    host = tiny_host(family).eval()
    ids = torch.arange(6)[None]
    before = host(input_ids=ids).last_hidden_state
    n_layers = host.config.num_hidden_layers
    insert_bottlenecks(host, HoulsbyOptions(width=3))
    torch.testing.assert_close(host(input_ids=ids).last_hidden_state, before, rtol=0, atol=0)
    inserted = [each for each in host.modules() if isinstance(each, Bottleneck)]
    assert len(inserted) == 2 * n_layers
    assert {each.down_project.out_features for each in inserted} == {3}
    for each in inserted:
        nn.init.normal_(each.up_project.bias)
    assert not torch.allclose(host(input_ids=ids).last_hidden_state, before)


def test_a_bottleneck_adds_to_its_input() -> None:
    torch.manual_seed(0)
    bottleneck = Bottleneck(width=4, inner=2)
    assert bottleneck.down_project.weight.abs().max() < 0.1
    assert bottleneck.down_project.weight.any()
    nn.init.normal_(bottleneck.up_project.weight)
    up, down = bottleneck.up_project, bottleneck.down_project
    torch.testing.assert_close(bottleneck(HOST), HOST + up(nn.functional.gelu(down(HOST))))
    with pytest.raises(ConfigError, match="houlsby: width 0: 1 or more"):
        HoulsbyOptions(width=0)
    assert HoulsbyOptions(width=1).width == 1
