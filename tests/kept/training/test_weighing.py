"""A step of several parts has the gradient of one batch that holds them all."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kept.batches import IGNORE, KnowledgeBatch
from kept.layers.means import mean_of
from kept.outputs import KnowledgeOutput
from kept.training.loop import train
from kept.training.processes.together import SINGLE_PROCESS
from kept.training.weighing import PartCount, StepCount
from tests.kept.training.stream_toy import ToyData
from tests.kept.training.training_run import Watcher
from tests.kept.training.training_toy import ToyModel, toy_config, toy_model


class MaskedToy(ToyModel):
    """Two losses whose numbers of labels differ from text to text, and from each other."""

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        output = super().forward(batch)
        assert batch.node_labels is not None
        logits = self.head(output.node_states).flatten(0, 1)
        labels = batch.node_labels.flatten()
        total = F.cross_entropy(logits, labels, ignore_index=IGNORE, reduction="sum")
        states = output.node_states[batch.node_mask]
        return KnowledgeOutput(
            node_states=output.node_states,
            losses={
                "words": mean_of(total, (labels != IGNORE).sum()),
                "size": mean_of(states.square().sum(), states.numel()),
            },
        )


def first_step(folder: Path, n_texts: int, accumulate: int) -> tuple[float, dict[str, float]]:
    model, watcher = MaskedToy(toy_model(dropout=0.0).config), Watcher()
    model.load_state_dict(toy_model(dropout=0.0).state_dict())
    config = toy_config(
        batch_size=n_texts, accumulate=accumulate, steps=1, clip_norm=None, warmup_steps=0
    )
    train(model, ToyData(), config, folder, reporter=watcher)
    (record,) = watcher.records
    assert record.gradient_norm is not None
    return record.gradient_norm, record.losses


def test_parts_of_other_label_counts_weigh_by_their_labels(tmp_path: Path) -> None:
    norm, losses = first_step(tmp_path / "whole", 6, 1)
    for n_texts, n_parts in ((3, 2), (2, 3), (1, 6)):
        other, others = first_step(tmp_path / f"{n_parts}", n_texts, n_parts)
        assert other == pytest.approx(norm, rel=1e-4), n_parts
        assert others == pytest.approx(losses, rel=1e-4), n_parts


def gradient(parts: list[tuple[Tensor, Tensor]], weigh: bool) -> Tensor:
    """That of a linear regression over `parts`, each read by itself."""
    line = nn.Linear(3, 1, bias=False)
    nn.init.ones_(line.weight)
    counts = []

    def losses(x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"error": mean_of((line(x)[:, 0] - y).square().sum(), len(y))}

    for part in parts:
        count = PartCount()
        with torch.no_grad(), count.counting(SINGLE_PROCESS, is_spare=False):
            count.losses = tuple(losses(*part))
        counts.append(count)
    step = StepCount(counts)
    assert step.is_complete
    for number, part in enumerate(parts):
        with step.shares(number, is_spare=False):
            loss = losses(*part)["error"]
        (loss if weigh else loss / len(parts)).backward()
    assert line.weight.grad is not None
    return line.weight.grad


def compositions(seed: int) -> tuple[int, ...]:
    """Nine examples in one to nine parts, some of them empty."""
    draws = random.Random(seed)
    cuts = sorted(draws.choices(range(10), k=draws.randint(1, 8)))
    return tuple(b - a for a, b in itertools.pairwise((0, *cuts, 9)))


CUT = [(8, 1), (3, 3, 3), (5, 0, 4), (1, 1, 7), (9,), (1,) * 9, (0, 9), (9, 0, 0)]


@pytest.mark.parametrize("sizes", dict.fromkeys([*CUT, *map(compositions, range(40))]))
def test_nine_examples_have_one_gradient_however_they_are_cut(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(9, 3), torch.randn(9)
    parts = list(zip(x.split(list(sizes)), y.split(list(sizes)), strict=True))
    torch.testing.assert_close(gradient(parts, True), gradient([(x, y)], True))


def count_of(labels: list[int], *losses: str) -> PartCount:
    return PartCount(labels, losses)


def test_a_loss_of_some_parts_alone_weighs_by_their_number() -> None:
    """Parts of two tasks: each task's mean over its labels, and by its share of the parts."""
    parts = [count_of([8], "a"), count_of([1], "a"), count_of([5], "b")]
    step, one = StepCount(parts), torch.tensor(1.0)
    shares = []
    for number, part in enumerate(parts):
        with step.shares(number, is_spare=False):
            shares.append(float(mean_of(one * part.n_labels[0], part.n_labels[0])))
    assert shares == pytest.approx([8 / 9 * 2 / 3, 1 / 9 * 2 / 3, 1 / 3])


def test_several_means_in_one_loss_are_told_apart_by_their_order() -> None:
    step = StepCount([count_of([4, 10], "loss"), count_of([2, 0], "loss")])
    with step.shares(1, is_spare=False):
        first, second = (mean_of(torch.tensor(6.0), 2), mean_of(torch.tensor(5.0), 0))
    assert (float(first), float(second)) == (1.0, 0.5)
    with step.shares(0, is_spare=True):
        assert float(mean_of(torch.tensor(6.0), 4)) == 0


def test_a_loss_that_counts_no_labels_leaves_all_parts_alike() -> None:
    assert not StepCount([count_of([4], "words", "size")]).is_complete
    assert not StepCount([count_of([], "size")]).is_complete
