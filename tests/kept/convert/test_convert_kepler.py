"""KEPLER's converter: a file in fairseq's layout, strictness, packed weights, hostile pickles."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kept.convert import kepler as keys
from kept.convert.tables import pack, unpack
from kept.encoders.kepler import KEPLER
from kept.errors import CheckpointError
from kept.objectives.described_triples import text_batch
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph
from tests.kept.convert.releases import KEPLER_ARGS, KEPLER_HEADS, kepler_file, kepler_state


def test_a_released_file_becomes_a_folder(tmp_path: Path) -> None:
    state = kepler_state()
    model = keys.convert(
        kepler_file(tmp_path / "kepler.pt", state, Namespace(**KEPLER_ARGS))
    ).eval()
    host = model.config.host
    assert (host.num_attention_heads, host.num_hidden_layers, host.vocab_size) == (2, 2, 20)
    assert (host.hidden_dropout_prob, host.max_position_embeddings) == (0.2, 34)
    first, second = (model.objectives[task].options for task in keys.TASKS)
    assert (first.gamma, first.relations, first.n_negatives) == (3.75, "conditioned", 3)
    assert (first.n_tokens, first.n_relation_tokens, first.cut) == (32, 4, "sequence")
    assert second.relations == "table"
    back = keys.to_original(model, KEPLER_HEADS)
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) for name in state)

    model.save_pretrained(tmp_path / "ours")
    again = KnowledgeForPreTraining.from_pretrained(tmp_path / "ours").eval()
    batch = text_batch([[0, 5, 6, 2], [0, 7, 2]], pad_id=1)
    with torch.no_grad():
        assert torch.equal(again(batch).node_states, model(batch).node_states)
    alone = KEPLER.from_pretrained(tmp_path / "ours").eval()
    with torch.no_grad():
        assert torch.equal(alone.encode_texts(batch), model(batch).node_states[:, 0])


def test_relations_can_follow_a_graph(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    state = kepler_state(n_relations=9)
    path = kepler_file(tmp_path / "kepler.pt", state, Namespace(**KEPLER_ARGS))
    small_graph.save(tmp_path / "kg")
    names = [*reversed(list(small_graph.relations)), "P1", "P2"]
    listed = tmp_path / "relations.txt"
    listed.write_text("\n".join(names) + "\n")
    model = keys.convert(path, kg=tmp_path / "kg", relations=listed)
    table = state["ke_heads.wiki.relation_emb.weight"]
    assert torch.equal(model.objectives["ke"].relations.detach(), table[:7].flip(0))
    model.save_pretrained(tmp_path / "ours")
    again = KnowledgeForPreTraining.from_pretrained(tmp_path / "ours", graph=small_graph)
    assert torch.equal(again.objectives["ke"].relations, model.objectives["ke"].relations)
    with pytest.raises(CheckpointError, match="belong together"):
        keys.convert(path, kg=tmp_path / "kg")
    listed.write_text("\n".join([*names[1:], "P3"]))
    with pytest.raises(CheckpointError, match=f"lacks: .*{names[0]}"):
        keys.convert(path, kg=tmp_path / "kg", relations=listed)
    listed.write_text("P1")
    with pytest.raises(CheckpointError, match="1 relations are named, the table has 9 rows"):
        keys.convert(path, kg=tmp_path / "kg", relations=listed)


def test_what_the_args_lack_is_asked_for(tmp_path: Path) -> None:
    path = kepler_file(tmp_path / "bare.pt", kepler_state(), None)
    with pytest.raises(CheckpointError, match="n_heads"):
        keys.convert(path)
    model = keys.convert(path, n_heads=4)
    assert model.config.host.num_attention_heads == 4
    relu = kepler_file(
        tmp_path / "relu.pt", kepler_state(), Namespace(**KEPLER_ARGS | {"activation_fn": "relu"})
    )
    with pytest.raises(CheckpointError, match="relu"):
        keys.convert(relu)


def test_strictness(tmp_path: Path) -> None:
    state = kepler_state()
    config = keys.original_config(state, KEPLER_ARGS)
    with pytest.raises(CheckpointError, match=r"does not know: \['surprise'\]"):
        keys.from_original(state | {"surprise": torch.zeros(1)}, config)
    short = {k: v for k, v in state.items() if k != "decoder.lm_head.dense.bias"}
    with pytest.raises(CheckpointError, match=r"missing .*objectives\.mlm\.transform\.dense\.bias"):
        keys.from_original(short, config)
    untied = state | {"decoder.lm_head.weight": state["decoder.lm_head.weight"] + 1}
    with pytest.raises(CheckpointError, match=r"lm_head\.weight should equal"):
        keys.from_original(untied, config)
    name = "decoder.sentence_encoder.layers.0.self_attn.in_proj_bias"
    with pytest.raises(CheckpointError, match=r"in_proj_bias has shape \(23,\)"):
        keys.from_original(state | {name: torch.zeros(23)}, config)
    lacking = {k: v for k, v in state.items() if "embed_positions" not in k}
    with pytest.raises(CheckpointError, match=r"lacks .*embed_positions"):
        keys.original_config(lacking, KEPLER_ARGS)
    third = state | {"ke_heads.third.gamma": torch.ones(1)}
    with pytest.raises(CheckpointError, match="at most two"):
        keys.original_config(third, KEPLER_ARGS)
    torch.save({"weights": state}, tmp_path / "other.pt")
    with pytest.raises(CheckpointError, match="no entry 'model'"):
        keys.convert(tmp_path / "other.pt")


def test_a_trained_segment_table_does_not_go_back() -> None:
    state = kepler_state()
    model = keys.from_original(state, keys.original_config(state, KEPLER_ARGS))
    with torch.no_grad():
        model.state_dict()[keys.SEGMENTS].add_(1)
    with pytest.raises(CheckpointError, match="segment table"):
        keys.to_original(model, KEPLER_HEADS)


class Hostile:
    """Runs a command when it is unpickled without care."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


class NamespaceOfMyOwn(Namespace):
    """A class that nobody allowed."""


@pytest.mark.parametrize("attack", ["beside", "inside", "subclass"])
def test_hostile_pickles_are_refused(tmp_path: Path, attack: str) -> None:
    proof = tmp_path / "proof"
    hostile = Hostile(proof)
    args = {
        "beside": Namespace(**KEPLER_ARGS),
        "inside": Namespace(**KEPLER_ARGS, extra=hostile),
        "subclass": NamespaceOfMyOwn(**KEPLER_ARGS),
    }[attack]
    entries = {"args": args, "model": kepler_state()}
    if attack == "beside":
        entries["extra_state"] = hostile
    torch.save(entries, tmp_path / "hostile.pt")
    with pytest.raises(CheckpointError, match="could run code"):
        keys.convert(tmp_path / "hostile.pt")
    assert not proof.exists()
    if attack != "subclass":  # the file would have run it
        torch.load(tmp_path / "hostile.pt", weights_only=False)
        assert proof.exists()


@given(st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_packing_is_reversible(n_parts: int, length: int, flat: bool) -> None:
    parts = tuple(f"part{i}.weight" for i in range(n_parts))
    packed = (("whole.weight", parts),)
    shape = (n_parts * length,) if flat else (n_parts * length, 2)
    state = {"a.whole.weight": torch.randn(shape), "b.other": torch.ones(3)}
    parted = unpack(state, packed)
    assert list(parted) == [*(f"a.{part}" for part in parts), "b.other"]
    back = pack(parted, packed)
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) for name in state)


def test_a_missing_part_is_named() -> None:
    with pytest.raises(CheckpointError, match=r"a\.whole cannot be joined without \['a\.two'\]"):
        pack({"a.one": torch.ones(1)}, (("whole", ("one", "two")),))
