"""The key table: reversible, and strict about names, ties and shapes."""

from __future__ import annotations

import pytest
import torch

from kept.convert import colake as keys
from kept.convert.tables import to_original
from kept.encoders.colake import CoLAKEConfig
from kept.errors import CheckpointError
from kept.objectives.model import KnowledgeForPreTraining

SIZES = {
    "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 8, "max_position_embeddings": 16, "type_vocab_size": 3,
}  # fmt: skip


@pytest.fixture
def config() -> CoLAKEConfig:
    return keys.original_config(host=SIZES, n_entities=5, n_relations=4)


@pytest.fixture
def original(config: CoLAKEConfig) -> dict[str, torch.Tensor]:
    state = to_original(
        KnowledgeForPreTraining(config).state_dict(), keys.PRETRAINING, keys.PRETRAINING_TIED
    )
    return {name: value.clone() for name, value in state.items()}


def test_round_trip(config: CoLAKEConfig, original: dict[str, torch.Tensor]) -> None:
    assert "lm_head.decoder.weight" in original
    model = keys.from_original(original, config)
    assert (model.encoder.position_offset, model.objectives["masked_nodes"].empty_loss) == (
        0,
        "nan",
    )
    back = to_original(model.state_dict(), keys.PRETRAINING, keys.PRETRAINING_TIED)
    assert back.keys() == original.keys()
    assert all(torch.equal(back[name], original[name]) for name in original)


def test_strictness(config: CoLAKEConfig, original: dict[str, torch.Tensor]) -> None:
    with pytest.raises(CheckpointError, match=r"does not know: \['surprise'\]"):
        keys.from_original(original | {"surprise": torch.zeros(1)}, config)
    extra = original | {"roberta.extra.weight": torch.zeros(1)}
    with pytest.raises(CheckpointError, match=r"unexpected \['encoder.host.extra.weight'\]"):
        keys.from_original(extra, config)
    short = {k: v for k, v in original.items() if k != "ent_lm_head.dense.bias"}
    with pytest.raises(CheckpointError, match=r"missing .*entity_transform\.dense\.bias"):
        keys.from_original(short, config)
    untied = original | {"lm_head.decoder.bias": original["lm_head.bias"] + 1}
    with pytest.raises(CheckpointError, match=r"lm_head\.decoder\.bias should equal"):
        keys.from_original(untied, config)
    wrong = original | {"entity_embeddings": torch.zeros(3, 8)}
    with pytest.raises(CheckpointError, match=r"\(3, 8\) instead of \(8, 8\)"):
        keys.from_original(wrong, config)


def test_no_rule_hides_another() -> None:
    """Reversible means: neither side's names overlap."""
    for rules in (keys.PRETRAINING, keys.RELATION, keys.TYPING):
        for side in (0, 1):
            names = [rule[side] for rule in rules]
            assert len(set(names)) == len(names)
            clashes = [(a, b) for a in names for b in names if a != b and b.startswith(a)]
            assert clashes == []
