"""What every strategy of adaptation promises over every method."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from entity_linking.mentions import LinkedText
from kept.adapters.inside import PLACES
from kept.errors import ConfigError, HostError
from kept.graphs.builder import BuilderConfig
from kept.heads.layer_mix import LayerMixOptions
from kept.heads.model import KnowledgeForTask
from kept.inputs.views import builder_for
from kept.methods import METHODS
from kept.tasks.datasets.formats import TaskExample
from kept.tasks.kinds import SINGLE
from kept.training.adaptation import Stages, layer_groups, stages
from kept.training.config import TrainConfig, Unfreezing
from kept.training.finetuning.data import TaskData
from kept.training.log import StepRecord, read_log
from kept.training.loop import Resume, TrainResult, train
from kept.training.optimisers import make_optimisers, set_rates
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import BERT_LIKE, FAMILIES, untaught_encoder
from tests.kept.training.training_toy import toy_config, toy_model, weights_hash

LABELS = ["a", "b", "c"]
INSIDE: dict[str, dict[str, Any]] = {
    "lora": {"rank": 2, "targets": ["query", "output"]}, "houlsby": {"width": 4},
    "pals": {"width": 6, "heads": 2},
}  # fmt: skip
GROUPS = ("embeddings", "layer.0", "layer.1", "head")

TAKES = {"lora": FAMILIES, "houlsby": (*BERT_LIKE, "deberta-v2"), "pals": BERT_LIKE}
"""Families into whose layers each kind can be inserted."""


@pytest.fixture(scope="module")
def linked_pairs(linked: list[LinkedText]) -> list[LinkedText]:
    """The three shortest texts with two links."""
    texts = sorted(linked, key=lambda text: len(text.text))
    return [text for text in texts if len(text.links) > 1][:3]


def task_data(
    method: str, graph: KnowledgeGraph, tokenizer: Any, linked: list[LinkedText]
) -> TaskData:
    small = BuilderConfig(max_neighbours=2, max_words=40, max_nodes=90, policy="degree")
    return TaskData(
        [
            TaskExample(text, (label,), tuple(link.mention for link in text.links)[:2])
            for text, label in zip(linked, LABELS, strict=True)
        ],
        graph,
        tokenizer,
        builder=builder_for(METHODS[method], small, {}),
        view=METHODS[method].view.of(graph, tokenizer),
        problem_type=SINGLE,
        labels={label: i for i, label in enumerate(LABELS)},
    )


def task_model(
    method: str,
    graph: KnowledgeGraph,
    tokenizer: Any,
    *,
    family: str = "bert",
    inside: str | None = None,
    **head: Any,
) -> KnowledgeForTask:
    encoder = untaught_encoder(method, graph, tokenizer, family)
    with torch.random.fork_rng():
        torch.manual_seed(2)
        if inside is not None:
            encoder.insert(inside, INSIDE[inside])
        return KnowledgeForTask.of(encoder, "targets", LABELS, n_targets=2, **head)


def settings(**changes: Any) -> TrainConfig:
    values = {
        "steps": 7, "batch_size": 3, "learning_rate": 5e-3, "device": "cpu", "threads": 1,
        "log_every": 1, "gradient_norms_every": 2,
    }  # fmt: skip
    return TrainConfig.model_validate(values | changes)


def moved_by_one_step(model: KnowledgeForTask, data: TaskData) -> set[str]:
    """Names of the parameters that a step without decay changes."""
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    batch = data.collate(
        [data.sample(i, epoch=0, seed=0) for i in range(len(data))], epoch=0, seed=0, step=0
    )
    optimisers = make_optimisers(model, settings(weight_decay=0.0))
    model(batch).losses["class"].backward()
    for optimiser in optimisers.values():
        optimiser.step()
    model.zero_grad(set_to_none=True)
    return {name for name, value in model.named_parameters() if not value.equal(before[name])}


@pytest.mark.parametrize("inside", INSIDE)
@pytest.mark.parametrize("method", METHODS)
def test_what_is_put_inside_changes_nothing_moves_alone_and_is_saved(
    inside: str,
    method: str,
    small_graph: KnowledgeGraph,
    tokenizer: Any,
    linked_pairs: list[LinkedText],
    tmp_path: Path,
) -> None:
    data = task_data(method, small_graph, tokenizer, linked_pairs)
    batch = data.collate([data.sample(0, epoch=0, seed=0)], epoch=0, seed=0, step=0)
    if (method, inside) == ("luke", "pals"):  # its attention goes through the parts of a layer
        with pytest.raises(ConfigError, match="entity_aware=false, or lora or houlsby"):
            task_model(method, small_graph, tokenizer, inside=inside)(batch)
        return
    plain = task_model(method, small_graph, tokenizer).eval()
    model = task_model(method, small_graph, tokenizer, inside=inside).eval()
    assert torch.equal(model.encoder(batch).node_states, plain.encoder(batch).node_states)
    moved = moved_by_one_step(model, data)
    host = {name for name in moved if name.startswith("encoder.host.")}
    assert host
    assert all(any(place_name in name for place_name in PLACES[inside]) for name in host)
    knowledge = {
        name for name, p in plain.named_parameters()
        if p.requires_grad and name.startswith("encoder.") and not name.startswith("encoder.host.")
    }  # fmt: skip
    trainable = {name for name, p in model.named_parameters() if p.requires_grad}
    assert knowledge <= trainable
    assert {name for name in moved if name.startswith("head.")} == {
        f"head.{name}" for name, _ in model.head.named_parameters()
    }
    model.save_pretrained(tmp_path)
    again = KnowledgeForTask.from_pretrained(tmp_path, graph=small_graph).eval()
    assert weights_hash(again) == weights_hash(model)
    torch.testing.assert_close(again(batch).class_logits, model(batch).class_logits)
    assert not torch.allclose(again(batch).class_logits, plain(batch).class_logits)
    assert {name for name, p in again.named_parameters() if p.requires_grad} == trainable
    encoder = type(model.encoder).from_pretrained(tmp_path).eval()
    torch.testing.assert_close(encoder(batch).node_states, model.encoder(batch).node_states)
    encoder.train_only((inside,))
    assert {name for name, p in encoder.named_parameters() if p.requires_grad} == {
        name.removeprefix("encoder.") for name in trainable if name.startswith("encoder.host.")
    }
    with pytest.raises(ConfigError, match=f"carries .*{inside}"):
        encoder.insert("lora", {})


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("inside", INSIDE)
def test_every_family_has_its_places(
    inside: str, family: str, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    if family not in TAKES[inside]:
        with pytest.raises(HostError, match=r"use lora|parts of BERT's layers"):
            task_model("none", small_graph, tokenizer, family=family, inside=inside)
        return
    model = task_model("none", small_graph, tokenizer, family=family, inside=inside)
    number = re.compile(r"[.]layers?[.]|_groups[.]")
    inner = [
        name
        for name, parameter in model.encoder.named_parameters()
        if parameter.requires_grad and number.search(name)
    ]
    per_layer = {"lora": 2 * 2, "houlsby": 2 * 4 + 2 * 2, "pals": 3 * 2}[inside]
    n_layers = 1 if family == "albert" else 2  # whose two passes share a layer
    assert len(inner) == n_layers * per_layer
    groups = {model.encoder.group_of(name) for name in inner}
    assert groups == ({"layer.0"} if family == "albert" else {"layer.0", "layer.1"})


@pytest.mark.parametrize("method", METHODS)
def test_features_of_a_frozen_encoder_and_a_mixture_of_its_layers(
    method: str,
    small_graph: KnowledgeGraph,
    tokenizer: Any,
    linked_pairs: list[LinkedText],
    tmp_path: Path,
) -> None:
    """Only the head and the mixture move; the encoder's dropout is off; it is all saved."""
    data = task_data(method, small_graph, tokenizer, linked_pairs)
    mixed = task_model(
        method, small_graph, tokenizer, frozen=["encoder"],
        layer_mix=LayerMixOptions(layer_norm=True),
    ).train()  # fmt: skip
    assert not any(module.training for module in mixed.encoder.modules())
    moved = moved_by_one_step(mixed, data)
    assert moved == {n for n, _ in mixed.named_parameters() if not n.startswith("encoder.")}
    assert {"layer_mix.scores", "layer_mix.gamma"} < moved
    mixed.save_pretrained(tmp_path)
    again = KnowledgeForTask.from_pretrained(tmp_path, graph=small_graph).train()
    assert again.layer_weights() == mixed.layer_weights()
    assert not again.encoder.training
    batch = data.collate([data.sample(1, epoch=0, seed=0)], epoch=0, seed=0, step=0)
    output = mixed.eval()(batch)
    assert weights_hash(again) == weights_hash(mixed)
    torch.testing.assert_close(again.eval()(batch).class_logits, output.class_logits)
    assert torch.equal(output.node_states, output.hidden_states[-1])


@pytest.mark.parametrize(
    ("order", "method"),
    [*(("gradual", method) for method in METHODS), ("chain", "colake"), ("sequential", "colake")],
)
def test_each_stage_moves_its_groups_and_no_other(
    order: str,
    method: str,
    small_graph: KnowledgeGraph,
    tokenizer: Any,
    linked_pairs: list[LinkedText],
) -> None:
    data = task_data(method, small_graph, tokenizer, linked_pairs)
    model = task_model(method, small_graph, tokenizer)
    names = {id(p): name for name, p in model.named_parameters()}
    groups = {g: {names[id(p)] for p in some} for g, some in layer_groups(model).items()}
    assert sorted(n for some in groups.values() for n in some) == sorted(names.values())
    trainable = {name for name, p in model.named_parameters() if p.requires_grad}
    wanted = stages(GROUPS, order)
    with Stages(model, Unfreezing(order=order, every=2)) as schedule:
        for stage, moving in enumerate(wanted):
            schedule.enter(2 * stage + 1, 0)
            assert schedule.at(2 * stage, 0) == moving
            moved = moved_by_one_step(model.eval(), data)
            assert moved <= set().union(*(groups[name] for name in moving)) & trainable
            assert all(moved & groups[name] for name in moving), moving
        assert schedule.at(999, 0) == wanted[-1]
    assert {name for name, p in model.named_parameters() if p.requires_grad} == trainable


@pytest.mark.parametrize(
    ("groups", "wanted"),
    [
        (GROUPS, [("head",), ("layer.0", "layer.1", "head"), GROUPS]),
        (("layer.1", "head"), [("head",), ("layer.1", "head")]),
        (("embeddings", "head"), [("head",), ("embeddings", "head")]),
        (("head",), [("head",)]),
    ],
)
def test_sequential_unfreezing_is_head_then_hidden_layers_then_embeddings(
    groups: tuple[str, ...], wanted: list[tuple[str, ...]]
) -> None:
    assert stages(groups, "sequential") == wanted


def test_two_stages_are_what_is_new_then_all() -> None:
    assert stages(GROUPS, "two-stage") == [("head",), GROUPS]
    assert stages(("head",), "two-stage") == [("head",)]


class Stopper:
    """Ends a run after a step."""

    def __init__(self, at: int) -> None:
        self.at, self.step_now = at, 0

    def step(self, record: StepRecord) -> None:
        self.step_now = record.step

    def notice(self, message: str) -> None:
        pass

    def __call__(self) -> bool:
        return self.step_now >= self.at


STRATEGIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "lora": (
        {"inside": "lora", "layer_mix": LayerMixOptions()},
        {"unfreezing": {"order": "gradual", "every": 2}, "rate_decay": 2.6},
    ),
    "chain": ({}, {"unfreezing": {"order": "chain"}}),
    "sequential": ({}, {"unfreezing": {"order": "sequential", "every": 2}}),
    "houlsby": ({"inside": "houlsby"}, {}),
    "pals": ({"inside": "pals"}, {}),
}
RESUMED = [
    *((method, "lora") for method in METHODS), ("colake", "chain"), ("kbert", "sequential"),
    ("ernie", "houlsby"), ("kbert", "pals"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "strategy"), RESUMED)
def test_cut_and_resumed_it_ends_the_same(
    method: str,
    strategy: str,
    small_graph: KnowledgeGraph,
    tokenizer: Any,
    linked_pairs: list[LinkedText],
    tmp_path: Path,
) -> None:
    data = task_data(method, small_graph, tokenizer, linked_pairs)
    how, training = STRATEGIES[strategy]

    def part(stop_at: int, resume: Resume, folder: str) -> tuple[str, TrainResult]:
        model, stop = task_model(method, small_graph, tokenizer, **how), Stopper(stop_at)
        result = train(
            model, data, settings(**training), tmp_path / folder, reporter=stop, should_stop=stop,
            resume=resume,
        )  # fmt: skip
        return weights_hash(model), result

    whole, result = part(99, Resume.NEVER, "whole")
    cut, _ = part(3, Resume.NEVER, "cut")
    again, _ = part(99, Resume.LATEST, "cut")
    assert again == whole != cut
    logged = [tuple(row["groups"]) if row["groups"] else None for row in read_log(result.log)]
    if strategy in ("houlsby", "pals"):
        assert logged == [None] * 7
    elif strategy == "chain":
        assert logged == [*stages(GROUPS, "chain"), GROUPS, GROUPS]
    elif strategy == "sequential":
        assert logged == [("head",)] * 2 + [GROUPS[1:]] * 2 + [GROUPS] * 3
    else:
        assert logged[0] == logged[1] == ("head",)
        assert logged[2] == logged[3] == ("layer.1", "head")


def test_a_stage_moves_its_groups_alone(
    small_graph: KnowledgeGraph, tokenizer: Any, linked_pairs: list[LinkedText], tmp_path: Path
) -> None:
    data = task_data("none", small_graph, tokenizer, linked_pairs)
    model, start = (task_model("none", small_graph, tokenizer) for _ in range(2))
    stop = Stopper(3)
    config = settings(unfreezing={"order": "gradual", "every": 2})
    train(model, data, config, tmp_path, reporter=stop, should_stop=stop)
    before = layer_groups(start)
    moved = {
        name
        for name, group in layer_groups(model).items()
        if not all(map(torch.equal, group, before[name]))
    }
    assert moved == {"layer.1", "head"}


def dense_groups(model: Any, optimisers: Any) -> dict[str, dict[str, Any]]:
    """The optimiser's group of each dense parameter, by name."""
    names = {id(p): name for name, p in model.named_parameters()}
    return {
        names[id(p)]: group for group in optimisers["dense"].param_groups for p in group["params"]
    }


def test_rates_fall_from_group_to_group(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    """Against the rule by hand; the sparse table of entities keeps its own rate."""
    model = task_model("colake", small_graph, tokenizer)
    config = settings(rate_decay=2.0, learning_rate=0.8, weight_decay=0.1)
    optimisers = make_optimisers(model, config)
    set_rates(optimisers, config, 0.5)
    rates = {
        name: (group["lr"], group["weight_decay"])
        for name, group in dense_groups(model, optimisers).items()
    }
    assert rates["head.dense.weight"] == (0.4, 0.1)
    assert rates["encoder.host.encoder.layer.1.output.dense.weight"] == (0.2, 0.1)
    assert rates["encoder.host.encoder.layer.0.output.dense.bias"] == (0.1, 0.0)
    assert rates["encoder.host.embeddings.word_embeddings.weight"] == (0.05, 0.1)
    assert rates["encoder.relation_embeddings.weight"] == (0.05, 0.1)
    assert [group["lr"] for group in optimisers["rows"].param_groups] == [0.5e-3]


def test_the_host_has_a_rate_of_its_own(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    model = task_model("ernie", small_graph, tokenizer)
    config = settings(rate_decay=2.0, learning_rate=0.8, host_learning_rate=0.2)
    optimisers = make_optimisers(model, config)
    set_rates(optimisers, config, 1.0)
    rates = {name: group["lr"] for name, group in dense_groups(model, optimisers).items()}
    assert rates["head.dense.weight"] == 0.8
    assert rates["encoder.host.encoder.layer.1.output.dense.weight"] == 0.1
    assert rates["encoder.host.encoder.layer.0.output.dense.bias"] == 0.05
    dense_rates = {rate for name, rate in rates.items() if not name.startswith("encoder.host.")}
    assert min(dense_rates) > 0.1


def test_a_run_that_is_too_short_says_so(
    small_graph: KnowledgeGraph, tokenizer: Any, linked_pairs: list[LinkedText], tmp_path: Path
) -> None:
    data = task_data("none", small_graph, tokenizer, linked_pairs)
    model = task_model("none", small_graph, tokenizer)
    config = settings(steps=2, unfreezing={"order": "gradual"})
    result = train(model, data, config, tmp_path)
    assert result.notices == ("the run is too short to unfreeze embeddings, layer.0",)


def test_a_model_without_layers_of_ours_is_refused() -> None:
    with pytest.raises(ConfigError, match="ToyModel has no encoder of ours"):
        make_optimisers(toy_model(), toy_config(rate_decay=2.0))
    with pytest.raises(ConfigError, match="ToyModel has no encoder of ours"):
        make_optimisers(toy_model(), toy_config(host_learning_rate=1e-5))
    with pytest.raises(ConfigError, match="ToyModel has no encoder of ours"):
        Stages(toy_model(), Unfreezing(order="chain"))
