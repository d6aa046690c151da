"""Parts that do not train, and losses that count more or less than others.

No optimiser holds a frozen part, resuming works with one, and a frozen host stays in eval mode.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from entity_linking.mentions import LinkedText
from kept.encoders.colake import CoLAKE
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import CoLAKEView
from kept.objectives.model import KnowledgeForPreTraining
from kept.training.config import TrainConfig
from kept.training.log import StepRecord, read_log
from kept.training.loop import Resume, TrainResult, train
from kept.training.optimisers import make_optimisers
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import tiny_host
from tests.kept.training.stream_toy import ToyData
from tests.kept.training.training_toy import ToyModel, toy_config, toy_model, weights_hash


class StillToy(ToyModel):
    """A toy whose words and mixing layer are frozen and never leave eval mode."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.words.requires_grad_(False)
        self.mix.requires_grad_(False)
        self.modes: list[tuple[bool, bool]] = []

    def train(self, mode: bool = True) -> StillToy:
        super().train(mode)
        self.dropout.train(False)
        return self

    def forward(self, batch: Any) -> Any:
        self.modes.append((self.training, self.dropout.training))
        return super().forward(batch)


def still_toy() -> StillToy:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return StillToy(toy_model().config)


class Stopper:
    def __init__(self, at: int) -> None:
        self.at, self.step_now = at, 0

    def step(self, record: StepRecord) -> None:
        self.step_now = record.step

    def notice(self, message: str) -> None:
        pass

    def __call__(self) -> bool:
        return self.step_now >= self.at


def run(model: ToyModel, folder: Path, *, stop_at: int = 99, **how: Any) -> TrainResult:
    stop = Stopper(stop_at)
    return train(
        model, ToyData(), toy_config(gradient_norms_every=3), folder, reporter=stop,
        should_stop=stop, **how,
    )  # fmt: skip


def test_frozen_parameters_stay_and_resume(tmp_path: Path) -> None:
    whole = still_toy()
    before = {name: value.detach().clone() for name, value in whole.named_parameters()}
    run(whole, tmp_path / "whole")
    for name, value in whole.named_parameters():
        assert torch.equal(value, before[name]) != value.requires_grad, name
    cut = still_toy()
    run(cut, tmp_path / "cut", stop_at=6)
    again = still_toy()
    run(again, tmp_path / "cut", resume=Resume.LATEST)
    assert weights_hash(again) == weights_hash(whole) != weights_hash(cut)


def test_a_module_that_stays_in_eval_mode_does(tmp_path: Path) -> None:
    still = still_toy()
    run(still, tmp_path)
    assert still.modes == [(True, False)] * 12
    assert still.dropout.p > 0


@pytest.fixture
def data(linked: list[LinkedText], small_graph: KnowledgeGraph, tokenizer: Any) -> WordGraphData:
    return WordGraphData(
        linked,
        small_graph,
        tokenizer,
        builder=BuilderConfig(max_words=40, max_nodes=90, max_neighbours=2),
        view=CoLAKEView(),
        objectives={"masked_nodes": {}, "mlm": {"strategy": "whole_word"}, "nsp": {}},
    )


def mixed(graph: KnowledgeGraph, tokenizer: Any, family: str = "bert") -> KnowledgeForPreTraining:
    with torch.random.fork_rng():
        host = tiny_host(family, n_words=len(tokenizer), n_positions=64)
        names: dict[str, dict[str, Any]] = {"masked_nodes": {}, "mlm": {}, "nsp": {}}
        return KnowledgeForPreTraining.of(CoLAKE.from_host(host, graph), names)


def settings(**changes: Any) -> TrainConfig:
    values = {
        "steps": 8, "batch_size": 8, "learning_rate": 5e-3, "device": "cpu", "threads": 1,
        "log_every": 1, "gradient_norms_every": 1, "weight_decay": 0.0,
    }  # fmt: skip
    return TrainConfig.model_validate(values | changes)


def test_objectives_mix_with_weights(
    data: WordGraphData, small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    """A weight of 0 leaves a head alone; the others' losses fall; the total is weighted."""
    model = mixed(small_graph, tokenizer)
    heads = model.objectives
    before = {name: value.detach().clone() for name, value in heads.named_parameters()}
    weights = {"mlm": 2.0, "nsp": 0.0, "entity": 0.5}
    config = settings(steps=40, objective_weights=weights)
    result = train(model, data, config, tmp_path)
    rows = read_log(result.log)
    for row in rows:
        losses = row["losses"]
        assert list(losses) == ["word", "entity", "relation", "mlm", "nsp"]
        wanted = sum(weights.get(name, 1.0) * value for name, value in losses.items())
        assert row["total_loss"] == pytest.approx(wanted, rel=1e-5)
        assert list(row["loss_gradient_norms"]) == list(losses)
        assert row["loss_gradient_norms"]["mlm"] > 0
        assert row["loss_gradient_norms"]["nsp"] > 0
    for name, value in heads.named_parameters():
        assert torch.equal(value, before[name]) == name.startswith("nsp."), name
    first, last = (sum(row["losses"]["mlm"] for row in part) for part in (rows[:10], rows[-10:]))
    assert last < 0.9 * first


def test_a_mixed_run_with_a_frozen_host_resumes(
    data: WordGraphData, small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    def part(folder: str, stop_at: int, resume: Resume = Resume.NEVER) -> KnowledgeForPreTraining:
        model, stop = mixed(small_graph, tokenizer), Stopper(stop_at)
        model.encoder.train_only(("tables",))
        train(
            model, data, settings(), tmp_path / folder, reporter=stop, should_stop=stop,
            resume=resume,
        )  # fmt: skip
        return model

    whole = part("whole", 99)
    part("cut", 3)
    again = part("cut", 99, Resume.LATEST)
    assert weights_hash(again) == weights_hash(whole)
    fresh = mixed(small_graph, tokenizer)
    host = dict(whole.encoder.host.named_parameters())
    for name, value in fresh.encoder.host.named_parameters():
        assert torch.equal(value, host[name]), name
        assert not host[name].requires_grad
    held = {
        id(value)
        for optimiser in make_optimisers(whole, settings()).values()
        for group in optimiser.param_groups
        for value in group["params"]
    }
    assert held == {id(value) for value in whole.parameters() if value.requires_grad}
    assert not held & {id(value) for value in host.values()}


def test_the_word_table_alone_can_stand_still(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    model = mixed(small_graph, tokenizer)
    model.encoder.freeze_parts(("words",))
    still = [name for name, value in model.named_parameters() if not value.requires_grad]
    assert still == ["encoder.host.embeddings.word_embeddings.weight"]
