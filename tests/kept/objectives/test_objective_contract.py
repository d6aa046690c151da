"""What every objective promises; an objective in the table is in this suite."""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from entity_linking.mentions import LinkedText
from kept.batches import IGNORE, KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig
from kept.graphs.graph import NodeKind
from kept.inputs.views import builder_for
from kept.methods import METHODS, Method
from kept.objectives.base import Objective, Preparation
from kept.objectives.model import OBJECTIVES, KnowledgeForPreTraining, objective_kind
from kept.randomness import generator
from kept.training.pretraining.data import WordGraphData
from kept.training.processes.together import SINGLE_PROCESS
from kept.training.weighing import PartCount
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import tiny_host
from tests.kept.training.parts_of_steps import losses_in_parts

N_SAMPLES = 6
LABEL_FIELDS = (
    "node_labels", "entity_labels", "mention_labels", "pair_labels", "labels", "sampled_entities",
    "triples", "second_triples",
)  # fmt: skip
OWN_DATA = {"dependency_heads": "learns from trees"}
"""Objectives that linked texts cannot serve, and what they say; their own tests hold them to it."""
MARKED = ("node_labels", "entity_labels")
UNTOUCHED = ("node_kinds", "node_mask", "positions", "segment_ids")


@dataclass(frozen=True)
class Case:
    """An objective on an encoder that can take it, with its data and the same data unmarked."""

    name: str
    model: KnowledgeForPreTraining
    data: WordGraphData
    plain: WordGraphData
    special_ids: Tensor

    @property
    def preparation(self) -> Preparation:
        return self.data.preparations[self.name]

    def batch(self) -> KnowledgeBatch:
        samples = [self.data.sample(i, epoch=0, seed=0) for i in range(N_SAMPLES)]
        return self.data.collate(samples, epoch=0, seed=0, step=0)


def partners(name: str) -> list[Method]:
    """Methods that train the objective by default, then the others."""
    lines = list(METHODS.values())
    return sorted(lines, key=lambda line: name not in line.objectives)


def model_for(
    name: str, graph: KnowledgeGraph, tokenizer: Any
) -> tuple[Method, KnowledgeForPreTraining]:
    """The first method whose encoder takes the objective."""
    refusals = []
    for line in partners(name):
        host = tiny_host(n_words=len(tokenizer), n_positions=128)
        encoder: KnowledgeEncoder = line.encoder.for_graph(host, graph, tokenizer, seed=0)
        try:
            return line, KnowledgeForPreTraining.of(encoder, {name: {}}).eval()
        except ConfigError as error:
            refusals.append(str(error))
    raise AssertionError(f"no method takes {name}: {refusals}")


@pytest.fixture(scope="module", params=[name for name in OBJECTIVES if name not in OWN_DATA])
def case(
    request: pytest.FixtureRequest,
    small_graph: KnowledgeGraph,
    tokenizer: Any,
    linked: list[LinkedText],
) -> Case:
    name = request.param
    with torch.random.fork_rng():
        torch.manual_seed(4)
        line, model = model_for(name, small_graph, tokenizer)
    builder = BuilderConfig(max_neighbours=2, max_words=40, max_nodes=90, policy="degree")

    def data(objectives: dict[str, dict[str, Any]]) -> WordGraphData:
        return WordGraphData(
            linked,
            small_graph,
            tokenizer,
            builder=builder_for(line, builder, {}),
            view=line.view.of(small_graph, tokenizer),
            objectives=objectives,
        )

    special = torch.tensor(sorted(tokenizer.all_special_ids))
    return Case(name, model, data({name: {}}), data({}), special)


def test_every_objective_is_whole() -> None:
    names = [
        name
        for name, kind in OBJECTIVES.items()
        if issubclass(kind.module, Objective)
        and issubclass(kind.preparation, Preparation)
        and dataclasses.is_dataclass(kind.options)
        and kind.options.__dataclass_params__.frozen
    ]
    assert names == list(OBJECTIVES), f"{len(names)} of {len(OBJECTIVES)} objectives are whole"
    assert len(names) >= 4
    used = {name for line in METHODS.values() for name in line.objectives}
    assert used <= set(OBJECTIVES)


@pytest.mark.parametrize("name", OWN_DATA)
def test_linked_texts_that_cannot_serve_are_refused(
    name: str, small_graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> None:
    line, _ = model_for(name, small_graph, tokenizer)
    view = line.view.of(small_graph, tokenizer)
    with pytest.raises(ConfigError, match=OWN_DATA[name]):
        WordGraphData(
            linked,
            small_graph,
            tokenizer,
            builder=builder_for(line, BuilderConfig(max_words=40), {}),
            view=view,
            objectives={name: {}},
        )


@pytest.mark.parametrize("name", OBJECTIVES)
def test_options_are_plain_values_and_unknown_ones_are_refused(name: str) -> None:
    kind = objective_kind(name)
    values = dataclasses.asdict(kind.read(name, {}))
    assert kind.read(name, json.loads(json.dumps(values))) == kind.read(name, {})
    with pytest.raises(ConfigError, match=f"{name} has no option 'nonsense'"):
        kind.read(name, {"nonsense": 1})


def test_losses_are_finite_means_that_reach_the_model(case: Case) -> None:
    losses = case.model(case.batch()).losses
    assert losses
    for name, loss in losses.items():
        assert loss.shape == (), name
        assert loss.isfinite(), name
    total = torch.stack(list(losses.values())).sum()
    assert total > 0
    case.model.zero_grad(set_to_none=True)
    total.backward()
    gradients = [p.grad for p in case.model.parameters() if p.grad is not None]
    assert any(bool(gradient.coalesce().values().any() if gradient.is_sparse else gradient.any())
               for gradient in gradients)  # fmt: skip
    assert all(gradient.isfinite().all() for gradient in gradients if not gradient.is_sparse)


@pytest.mark.parametrize("sizes", [(4, 2), (1, 5), (2, 3, 1), (1,) * N_SAMPLES])
def test_parts_of_a_step_weigh_by_their_labels(case: Case, sizes: tuple[int, ...]) -> None:
    """What each part has by itself, weighed by its labels, is the loss of the step."""
    samples = [case.data.sample(i, epoch=0, seed=0) for i in range(N_SAMPLES)]
    ends = [0, *accumulate(sizes)]
    parts = [
        case.data.collate(samples[a:b], epoch=0, seed=0, step=number)
        for number, (a, b) in enumerate(pairwise(ends))
    ]
    step = losses_in_parts(case.model, parts)
    expected, weights = Counter[str](), Counter[str]()
    for part in parts:
        count = PartCount()
        with count.counting(SINGLE_PROCESS, is_spare=False):
            losses = case.model(part).losses
        if len(count.n_labels) != len(losses):
            pytest.skip(f"{case.name} has losses of several means; see test_weighing.py")
        for n, (name, loss) in zip(count.n_labels, losses.items(), strict=True):
            expected[name] += n * loss.item()
            weights[name] += n
    assert step.keys() == expected.keys()
    assert len(weights)
    for name, loss in step.items():
        n_having = sum(name in case.model(part).losses for part in parts)
        share = n_having / len(parts)
        assert loss.item() == pytest.approx(
            share * expected[name] / max(weights[name], 1), rel=1e-4
        )


def test_padding_changes_no_loss(case: Case) -> None:
    batch = case.batch()
    plain = case.model(batch).losses
    longer = case.model(batch.pad_to(batch.node_ids.shape[1] + 3)).losses
    for name in plain:
        torch.testing.assert_close(longer[name], plain[name], atol=1e-5, rtol=1e-5)


def test_without_labels_there_is_no_loss(case: Case) -> None:
    """Labels: the known fields, and whatever the data carry only because of this objective."""
    batch = case.batch()
    plain = case.plain.collate([case.plain.sample(0, epoch=0, seed=0)], epoch=0, seed=0, step=0)
    added = [f.name for f in dataclasses.fields(batch) if getattr(plain, f.name) is None]
    unlabelled = dataclasses.replace(batch, **dict.fromkeys((*LABEL_FIELDS, *added)))
    assert case.model(unlabelled).losses == {}


def test_the_same_draws_give_the_same_marks(case: Case) -> None:
    for index in range(N_SAMPLES):
        plain = case.plain.sample(index, epoch=0, seed=0)
        one, again = (case.preparation.mark(plain, generator(0, "marks", index)) for _ in range(2))
        assert one.same_as(again)
        first, second = (case.data.sample(index, epoch=0, seed=0) for _ in range(2))
        assert first.same_as(second)
    assert case.batch().same_as(case.batch())


def test_a_preparation_travels_to_workers(case: Case) -> None:
    again = pickle.loads(pickle.dumps(case.preparation))
    assert again.fingerprint == case.preparation.fingerprint
    plain = case.plain.sample(0, epoch=0, seed=0)
    marked = case.preparation.mark(plain, generator(0, "marks"))
    assert again.mark(plain, generator(0, "marks")).same_as(marked)


def test_marks_touch_neither_special_tokens_nor_padding(case: Case) -> None:
    for index in range(N_SAMPLES):
        plain = case.plain.sample(index, epoch=0, seed=0)
        marked = case.preparation.mark(plain, generator(0, "marks", index))
        assert torch.equal(marked.visibility.mask, plain.visibility.mask)
        for name in UNTOUCHED:
            assert torch.equal(getattr(marked, name), getattr(plain, name)), name
        words = plain.node_kinds == NodeKind.WORD
        special = words & torch.isin(plain.node_ids, case.special_ids)
        assert torch.equal(marked.node_ids[special], plain.node_ids[special])
        for name in MARKED:
            labels = getattr(marked, name)
            assert labels is None or (labels[special] == IGNORE).all(), name
    batch = case.batch()
    for name in MARKED:
        labels = getattr(batch, name)
        assert labels is None or (labels[~batch.node_mask] == IGNORE).all(), name


def test_the_configuration_brings_the_objective_back(case: Case, tmp_path: Any) -> None:
    case.model.save_pretrained(tmp_path)
    again = KnowledgeForPreTraining.from_pretrained(tmp_path).eval()
    assert list(again.objectives) == [case.name]
    batch = case.batch()
    losses, wanted = again(batch).losses, case.model(batch).losses
    for name in wanted:  # other addresses of the weights may round the last bit otherwise
        torch.testing.assert_close(losses[name], wanted[name], rtol=1e-6, atol=0)
