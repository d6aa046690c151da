"""Epochs of batches: what is kept of the best, when it stops, and where it goes on."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from kept.errors import ConfigError, EvaluationError
from kept.kge.resuming.epochs import (
    Progress,
    make_optimiser,
    run_epochs,
    shuffled_batches,
)
from kept.kge.training_config import TrainingConfig


def config(**fields: Any) -> TrainingConfig:
    settings = {"n_epochs": 4, "batch_size": 4, "learning_rate": 0.1, "optimiser": "adam"}
    return TrainingConfig(**{**settings, **fields})


class One(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))


def run(settings: TrainingConfig, **options: Any) -> tuple[One, Any, list[list[int]]]:
    """Trains on ten rows; also the rows of every batch."""
    module, batches = One(), list[list[int]]()

    def loss(rows: Tensor) -> Tensor:
        batches.append(rows.tolist())
        return (module.weight * rows.float().mean()).sum()

    generator = torch.Generator().manual_seed(3)
    history = run_epochs(module, 10, loss, config=settings, generator=generator, **options)
    return module, history, batches


def test_every_epoch_reads_every_row_once_in_another_order() -> None:
    _, history, batches = run(config(n_epochs=2))
    assert [len(batch) for batch in batches] == [4, 4, 2] * 2
    first, second = ([*chain(*batches[i : i + 3])] for i in (0, 3))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert (len(history.losses), history.best_epoch, history.stopped_early) == (2, 2, False)
    assert history.seconds > 0


def test_the_loss_of_an_epoch_is_that_of_its_rows() -> None:
    """With a rate of hardly anything the weight stays 1: the mean row is 4.5."""
    _, history, _ = run(config(n_epochs=1, learning_rate=1e-9))
    assert history.losses == (pytest.approx(4.5, abs=1e-3),)


def test_the_weights_of_the_best_epoch_are_kept() -> None:
    values = iter([0.1, 0.5, 0.5, 0.2])
    seen: list[float] = []

    def best_of(module: One) -> Any:
        def validate() -> float:
            seen.append(float(module.weight.detach()))
            return next(values)

        return validate

    module, batches = One(), []

    def loss(rows: Tensor) -> Tensor:
        batches.append(rows)
        return module.weight.sum()

    history = run_epochs(
        module, 10, loss, config=config(validate_every=1), validate=best_of(module),
        generator=torch.Generator(),
    )  # fmt: skip
    assert history.best_epoch == 2, "of equals the first"
    assert float(module.weight.detach()) == pytest.approx(seen[1])
    assert history.validations == ((1, 0.1), (2, 0.5), (3, 0.5), (4, 0.2))
    assert float(history.state["weights"]["weight"]) == pytest.approx(seen[3])


@pytest.mark.parametrize(("patience", "n_epochs"), [(1, 4), (2, 6), (0, 9)])
def test_it_stops_after_as_many_validations_without_a_better_one(
    patience: int, n_epochs: int
) -> None:
    values = iter([0.5, 0.4, 0.3, 0.2, 0.1])
    settings = config(n_epochs=9, validate_every=2, patience=patience)
    _, history, _ = run(settings, validate=lambda: next(values))
    assert len(history.losses) == n_epochs
    assert history.stopped_early is (patience > 0)
    assert history.best_epoch == 2


def test_a_longer_run_goes_on_from_a_shorter_one() -> None:
    whole, long, batches = run(config(n_epochs=4))
    _, short, first = run(config(n_epochs=2))
    resumed, later, rest = run(config(n_epochs=4), state=short.state)
    assert first + rest == batches
    assert later.losses == long.losses
    torch.testing.assert_close(resumed.weight, whole.weight, rtol=0, atol=0)
    assert later.seconds >= short.seconds


def test_hooks_come_in_their_places() -> None:
    events: list[str] = []
    run(
        config(n_epochs=2), before_epoch=lambda: events.append("before"),
        after_step=lambda: events.append("step"),
        on_epoch=lambda epoch, loss: events.append(f"epoch {epoch}"),
    )  # fmt: skip
    steps = ["step"] * 3
    assert events == ["before", *steps, "epoch 1", "before", *steps, "epoch 2"]


def test_a_loss_that_is_no_number_is_an_error() -> None:
    module = One()

    def loss(rows: Tensor) -> Tensor:
        return module.weight.sum() * float("nan")

    for kind in (ConfigError, EvaluationError):
        with pytest.raises(kind, match="loss is nan in epoch 1; lower learning_rate"):
            run_epochs(module, 10, loss, config=config(), generator=torch.Generator(), error=kind)


def test_progress_is_what_its_values_say() -> None:
    progress = Progress(epoch=2, losses=[1.0, 2.0], validations=[(1, 0.5)], n_batches=3, total=7.0)
    again = Progress.of({**vars(progress), "validations": [[1, 0.5]]})
    assert again == progress
    again.end_epoch(0.5)
    assert (again.epoch, again.losses, again.n_batches, again.total) == (3, [1.0, 2.0, 0.5], 0, 0.0)
    assert progress.losses == [1.0, 2.0], "what was restored is another list"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("adagrad", torch.optim.Adagrad), ("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)],
)
def test_optimisers_by_name(name: str, kind: type) -> None:
    optimiser = make_optimiser(One(), config(optimiser=name, learning_rate=0.25))
    assert type(optimiser) is kind
    assert optimiser.param_groups[0]["lr"] == 0.25


def test_batches_of_an_order() -> None:
    batches = list(shuffled_batches(7, 3, torch.Generator().manual_seed(0)))
    assert [len(batch) for batch in batches] == [3, 3, 1]
    assert sorted(torch.cat(batches).tolist()) == list(range(7))
    assert list(shuffled_batches(0, 3, torch.Generator())) == []
