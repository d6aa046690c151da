"""What every method promises on every host family; a method in the table is in this suite."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel

from entity_linking.mentions import LinkedText
from kept.batches import KnowledgeBatch
from kept.encoders import ENCODERS, encoder_class, read_config
from kept.encoders.base import KnowledgeEncoder
from kept.errors import HostError
from kept.graphs.builder import BuilderConfig, build_many
from kept.inputs.views import builder_for, view_for
from kept.methods import METHODS, method_of
from kept.objectives.model import OBJECTIVES, KnowledgeForPreTraining
from kept.training.config import TrainConfig
from kept.training.optimisers import make_optimisers
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from kg_loaders.errors import GraphMismatchError
from tests.forked import Forked
from tests.kept.tiny_hosts import BERT_LIKE, FAMILIES, NO_SDPA, method_encoder

N_TEXTS = 4
N_FAMILIES = 4


def families_of(name: str) -> tuple[str, ...]:
    """BERT, and others in turn, so that the methods together are tried on every family."""
    able = BERT_LIKE if METHODS[name].encoder.needs_bert_layers else FAMILIES
    start, others = 3 * list(METHODS).index(name), able[1:]
    return ("bert", *(others[(start + i) % len(others)] for i in range(N_FAMILIES - 1)))


CASES = [(name, family) for name in METHODS for family in families_of(name)]
"""Every promise is tested on these. That a method takes a training step on each family, or is
refused, is `test_hosts_table`."""


@dataclass(frozen=True)
class Case:
    """A method on a tiny host, with samples in its view."""

    name: str
    encoder: KnowledgeEncoder
    samples: list[KnowledgeBatch]
    graph: KnowledgeGraph

    @cached_property
    def batch(self) -> KnowledgeBatch:
        return KnowledgeBatch.stack(self.samples)


def builder(name: str) -> BuilderConfig:
    small = BuilderConfig(max_neighbours=2, max_words=40, max_nodes=90, policy="degree")
    return builder_for(METHODS[name], small, {})


@pytest.fixture(scope="module", params=CASES, ids=["-".join(case) for case in CASES])
def case(
    request: pytest.FixtureRequest,
    small_graph: KnowledgeGraph,
    tokenizer: Any,
    linked: list[LinkedText],
) -> Case:
    name, family = request.param
    return make_case(name, family, small_graph, tokenizer, linked)


def data_of(
    name: str, graph: KnowledgeGraph, tokenizer: Any, linked: Sequence[LinkedText]
) -> WordGraphData:
    method = METHODS[name]
    return WordGraphData(
        linked,
        graph,
        tokenizer,
        builder=builder(name),
        view=view_for(method, graph, tokenizer, {}),
        objectives=method.objectives,
    )


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, atol=5e-6, rtol=1e-5)


def make_case(
    name: str, family: str, graph: KnowledgeGraph, tokenizer: Any, linked: Sequence[LinkedText],
    n_layers: int = 2,
) -> Case:  # fmt: skip
    texts = [text for text in linked if len(text.links) > 1][:N_TEXTS]
    graphs = build_many(texts, tokenizer, graph, seed=0, config=builder(name))
    view = view_for(METHODS[name], graph, tokenizer, {})
    encoder = method_encoder(name, graph, tokenizer, family=family, n_layers=n_layers)
    return Case(name, encoder, [view(graph_) for graph_ in graphs], graph)


def test_every_encoder_is_in_the_tables() -> None:
    for model_type in ENCODERS:
        class_ = encoder_class(type("Named", (), {"model_type": model_type}))
        assert class_.config_class.model_type == model_type
        assert any(line.encoder is class_ for line in METHODS.values())
    assert {family for _, family in CASES} == set(FAMILIES)
    assert len(CASES) == len(METHODS) * N_FAMILIES
    assert all(name in OBJECTIVES for line in METHODS.values() for name in line.objectives)


@torch.no_grad()
def test_shapes_and_types(case: Case) -> None:
    output, batch = case.encoder(case.batch), case.batch
    width = case.encoder.host.config.hidden_size
    assert output.node_states.shape == (*batch.node_ids.shape, width)
    assert output.pooled_state.shape == (len(batch), width)
    assert len(output.hidden_states) >= 1
    assert torch.equal(output.hidden_states[-1], output.node_states)
    assert output.node_states.dtype == torch.float32
    assert output.node_states.isfinite().all()
    assert output.losses == {}
    assert method_of(case.encoder) is METHODS[case.name]


@torch.no_grad()
def test_padding_changes_nothing(case: Case) -> None:
    batch = case.batch
    longer = case.encoder(batch.pad_to(batch.node_ids.shape[1] + 5)).node_states
    plain = case.encoder(batch).node_states
    assert longer.isfinite().all()
    for states, mask in zip(zip(plain, longer, strict=True), batch.node_mask, strict=True):
        close(states[1][: len(mask)][mask], states[0][mask])


@torch.no_grad()
def test_a_batch_equals_batches_of_one(case: Case) -> None:
    whole = case.encoder(case.batch)
    for index, sample in enumerate(case.samples):
        alone = case.encoder(sample)
        close(whole.node_states[index, : sample.node_ids.shape[1]], alone.node_states[0])
        close(whole.pooled_state[index], alone.pooled_state[0])


@torch.no_grad()
def test_an_invisible_node_has_no_influence(case: Case) -> None:
    """Another word at a node leaves alone every node that no path of layers leads to."""
    sample = case.samples[0]
    n_layers = case.encoder.host.config.num_hidden_layers
    reach = torch.linalg.matrix_power(sample.visibility.mask[0].float(), n_layers) > 0
    before = case.encoder(sample).node_states[0]
    words = (sample.node_kinds[0] == 0).nonzero()[:, 0].tolist()
    n_spared = 0
    for node in words[:: max(len(words) // 6, 1)]:
        ids = sample.node_ids.clone()
        ids[0, node] = 7 if int(ids[0, node]) != 7 else 8
        after = case.encoder(dataclasses.replace(sample, node_ids=ids)).node_states[0]
        changed = (after - before).abs().amax(1) > 1e-6
        assert changed[node]
        assert not changed[~reach[:, node]].any()
        n_spared += int((~reach[:, node]).sum())
    assert reach.all() or n_spared > 0


@torch.no_grad()
def test_eager_and_sdpa_agree(case: Case, small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    family, config = case.encoder.host.config.model_type, case.encoder.host.config
    if family in NO_SDPA:
        assert config._attn_implementation == "eager"
        return
    eager = method_encoder(case.name, small_graph, tokenizer, family=family, attention="eager")
    eager.load_state_dict(case.encoder.state_dict())
    assert eager.host.config._attn_implementation == "eager"
    mask = case.batch.node_mask
    close(eager(case.batch).node_states[mask], case.encoder(case.batch).node_states[mask])


@torch.no_grad()
def test_half_precision_is_finite_and_near(case: Case) -> None:
    """bfloat16 has eight bits: what is near is the direction of a node's state."""
    whole = case.encoder(case.batch).node_states
    with torch.autocast("cpu", torch.bfloat16):
        output = case.encoder(case.batch)
    half, mask = output.node_states.float(), case.batch.node_mask
    assert output.pooled_state.isfinite().all()
    assert half.isfinite().all()
    alike = torch.cosine_similarity(half[mask], whole[mask], dim=-1)
    assert alike.min() > 0.99, alike.min()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@torch.no_grad()
def test_a_device_changes_nothing(
    small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    """In one test for all cases, so that a machine without a device skips one."""
    for name, family in CASES:
        case = make_case(name, family, small_graph, tokenizer, linked)
        mask, expected = case.batch.node_mask, case.encoder(case.batch).node_states
        states = case.encoder.to("cuda")(case.batch.to("cuda")).node_states
        assert states.device.type == "cuda", (name, family)
        torch.testing.assert_close(
            states.cpu()[mask], expected[mask], atol=1e-4, rtol=1e-3,
            msg=lambda text, of=(name, family): f"{of}: {text}",
        )  # fmt: skip


@pytest.fixture(scope="module")
def compiled(
    small_graph: KnowledgeGraph,
    tokenizer: Any,
    linked: list[LinkedText],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str]:
    """By method, what went wrong, if anything: one process, without this suite's shape checks.

    On hosts of one layer: to trace a second one of the same code takes as long again.
    """
    cases = [
        make_case(name, "bert", small_graph, tokenizer, linked, n_layers=1) for name in METHODS
    ]
    file = tmp_path_factory.mktemp("compiled") / "cases.pt"
    torch.save([(case.name, case.encoder, case.batch) for case in cases], file)
    process = Forked([Path(__file__).with_name("compile_cases.py"), file], os.environ)
    stdout, _ = process.communicate()
    assert process.returncode == 0, stdout
    differences: dict[str, str] = json.loads(stdout.splitlines()[-1])
    return differences


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_compiles_as_one_graph(name: str, compiled: dict[str, str]) -> None:
    """States and gradients are the same, sparse gradients stay sparse."""
    assert compiled[name] == ""


TOO_ODD = {
    "gpt2": {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32},
    "t5": {"d_model": 16, "num_layers": 1, "num_heads": 2, "d_kv": 8, "d_ff": 16},
}
"""Families that no method takes, with sizes of a tiny one."""


@pytest.mark.parametrize("family", TOO_ODD)
@pytest.mark.parametrize("name", METHODS)
def test_another_host_is_refused(
    name: str, family: str, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    host = AutoModel.from_config(
        AutoConfig.for_model(family, vocab_size=len(tokenizer), **TOO_ODD[family])
    )
    with pytest.raises(HostError, match=", ".join(FAMILIES)) as caught:
        METHODS[name].encoder.for_graph(host, small_graph, tokenizer, seed=0)
    assert repr(family) in str(caught.value)


@torch.no_grad()
def test_saved_and_loaded_it_says_the_same(case: Case, tmp_path: Path) -> None:
    case.encoder.save_pretrained(tmp_path)
    assert type(case.encoder) is encoder_class(read_config(tmp_path))
    again = type(case.encoder).from_pretrained(tmp_path, graph=case.graph).eval()
    assert torch.equal(again(case.batch).node_states, case.encoder(case.batch).node_states)
    assert not [f for f in tmp_path.iterdir() if f.suffix not in (".json", ".safetensors")]


def test_another_graph_is_refused(case: Case, tmp_path: Path) -> None:
    other = graph_from_records([Triple("Q1", "P1", "Q2")])
    case.encoder.save_pretrained(tmp_path)
    if not case.encoder.holds_rows:
        type(case.encoder).from_pretrained(tmp_path, graph=other)
        return
    with pytest.raises(GraphMismatchError, match=other.id_space_hash):
        type(case.encoder).from_pretrained(tmp_path, graph=other)


@pytest.mark.parametrize("name", METHODS)
def test_overfits_one_batch_and_moves_only_what_it_declares(
    name: str, small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    """Every loss falls; frozen parameters stay; every other parameter gets a gradient."""
    data = data_of(name, small_graph, tokenizer, linked)
    samples = [data.sample(i, epoch=0, seed=0) for i in range(6)]
    batches = [data.collate(samples, epoch=0, seed=0, step=step) for step in range(data.period)]
    encoder = method_encoder(name, small_graph, tokenizer)
    model = KnowledgeForPreTraining.of(encoder, METHODS[name].objectives).eval()
    before = {k: v.detach().clone() for k, v in model.named_parameters()}
    config = TrainConfig(
        steps=1, batch_size=1, learning_rate=5e-3, entity_learning_rate=5e-2, weight_decay=0.0
    )
    optimisers = make_optimisers(model, config)

    def losses() -> dict[str, Tensor]:
        """Of one batch, or of one of each kind where tasks alternate."""
        return {k: v for batch in batches for k, v in model(batch).losses.items()}

    first = {k: v.item() for k, v in losses().items()}
    assert first
    for step in range(80):
        model.zero_grad(set_to_none=True)
        losses_ = losses()
        last = {k: v.item() for k, v in losses_.items()}
        halved = sum(last.values()) < 0.5 * sum(first.values())
        if halved and all(last[k] <= first[k] for k in first):
            break
        torch.stack(list(losses_.values())).sum().backward()
        if step == 0:
            silent = {k for k, v in model.named_parameters() if v.grad is None}
        for optimiser in optimisers.values():
            optimiser.step()
    assert sum(last.values()) < 0.5 * sum(first.values()), (first, last)
    assert all(last[k] <= first[k] for k in first), (first, last)
    frozen = {k for k, v in model.named_parameters() if not v.requires_grad}
    for k, v in model.named_parameters():
        if k in frozen or k in silent:
            assert torch.equal(v, before[k]), k
    unused = {
        k for k in silent - frozen if not k.removeprefix("encoder.").startswith(encoder.unused)
    }
    assert not unused, f"neither declared frozen nor unused, yet without gradient: {unused}"
