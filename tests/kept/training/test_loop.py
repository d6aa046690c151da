"""The loop: dies anywhere, resumes to the same bits."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kept.batches import KnowledgeBatch
from kept.errors import CheckpointError, UnfinishedError
from kept.outputs import KnowledgeOutput
from kept.training.checkpoint import list_checkpoints
from kept.training.gradients import loss_norms, shared_parameters
from kept.training.log import read_log
from kept.training.loop import Resume, _Run, train
from kept.training.processes.together import Processes
from tests.forked import Forked
from tests.kept.training.stream_toy import ToyData
from tests.kept.training.training_run import Watcher, run
from tests.kept.training.training_toy import ToyModel, toy_config, toy_model, weights_hash


def toy(*flags: object) -> Forked:
    return Forked([Path(__file__).with_name("train_toy.py"), *flags], os.environ)


@pytest.mark.slow
def test_killed_in_mid_epoch_and_in_a_save_it_resumes_to_the_same_weights(tmp_path: Path) -> None:
    """Strings have other hashes in the processes that are killed than here."""
    whole = run(tmp_path / "whole")
    process = toy(tmp_path / "cut", "--workers", 1, "--pause", 0.3)
    for line in process.stdout:
        if line.strip() == "7":  # epochs have 5 batches, checkpoints come at 4 and 8
            os.kill(process.pid, signal.SIGKILL)
            break
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    assert [p.name for p in list_checkpoints(tmp_path / "cut/checkpoints")] == ["step-00000004"]
    in_save = toy(tmp_path / "cut", "--resume", "--die-at-sync", 3)
    steps = [line for line in in_save.communicate()[0].splitlines() if line.isdigit()]
    assert steps[-1] == "8"
    assert in_save.returncode == -signal.SIGKILL
    left = sorted(path.name for path in (tmp_path / "cut/checkpoints").iterdir())
    assert left == [
        f".step-00000008.{in_save.pid}.part", ".step-00000008.lock", "step-00000004",
    ]  # fmt: skip
    model, watcher = toy_model(), Watcher()
    cut = tmp_path / "cut"
    train(model, ToyData(), toy_config(), cut, reporter=watcher, resume=Resume.LATEST)
    assert watcher.notices[0].startswith("resumed from ")
    assert watcher.records[0].step == 5
    assert weights_hash(model) == whole
    logged = [row["step"] for row in read_log(tmp_path / "cut/log.jsonl")]
    assert logged == list(range(1, 13))


def test_stopping_anywhere_changes_nothing(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", steps=11, accumulate=2)
    for stop in (1, 5, 8):
        folder = tmp_path / str(stop)
        cut = run(folder, steps=11, accumulate=2, stop_at=stop)
        assert cut != whole
        assert run(folder, resume=Resume.LATEST, steps=11, accumulate=2) == whole


def test_a_node_budget_resumes_too(tmp_path: Path) -> None:
    how: dict[str, Any] = {"batch_size": None, "node_budget": 24}
    whole = run(tmp_path / "whole", **how)
    run(tmp_path / "cut", stop_at=7, **how)
    assert run(tmp_path / "cut", resume=Resume.LATEST, **how) == whole


def test_batches_by_length_resume_too_and_are_part_of_what_a_run_is(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", order="by_length")
    run(tmp_path / "cut", stop_at=7, order="by_length")
    with pytest.raises(CheckpointError, match="order"):
        run(tmp_path / "cut", resume=Resume.LATEST)
    assert run(tmp_path / "cut", resume=Resume.LATEST, order="by_length") == whole
    assert whole != run(tmp_path / "shuffled")


def test_what_went_before_training_counts_towards_the_budget(tmp_path: Path) -> None:
    options: dict[str, Any] = {"budget_since": time.monotonic() - 50}
    for minutes, ended in ((0.5, "budget"), (5, "finished")):
        config = toy_config(budget_minutes=minutes)
        result = train(toy_model(), ToyData(), config, tmp_path / ended, **options)
        assert result.stopped == ended
    assert train(toy_model(), ToyData(), toy_config(budget_minutes=0.5), tmp_path).step == 12


def test_the_log_of_a_resumed_run_has_the_losses_of_a_whole_one(tmp_path: Path) -> None:
    run(tmp_path / "whole")
    run(tmp_path / "cut", stop_at=6)
    run(tmp_path / "cut", resume=Resume.LATEST)
    rows = [read_log(tmp_path / name / "log.jsonl") for name in ("whole", "cut")]
    timed = (
        "seconds", "waiting_seconds", "nodes_per_second", "texts_per_second", "peak_memory_mib",
    )  # fmt: skip
    untimed = [[{k: v for k, v in r.items() if k not in timed} for r in rs] for rs in rows]
    assert untimed[0] == untimed[1]
    assert len(untimed[0]) == 12
    assert {"kind", "step", "epoch", "losses", "gradient_norm", "row_gradient_norm"} <= set(
        untimed[0][0]
    )


def test_two_precisions_in_one_process(tmp_path: Path) -> None:
    """bfloat16 is near fp32, with weights in fp32, and resumes to the same bits."""
    runs = {}
    for precision in ("fp32", "bf16"):
        model, watcher = toy_model(), Watcher()
        config = toy_config(precision=precision)
        train(model, ToyData(), config, tmp_path / precision, reporter=watcher)
        runs[precision] = (weights_hash(model), watcher.records[0].total_loss)
        assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert runs["bf16"][0] != runs["fp32"][0]
    assert runs["bf16"][1] != runs["fp32"][1]
    assert runs["bf16"][1] == pytest.approx(runs["fp32"][1], rel=0.02)
    run(tmp_path / "cut", stop_at=6, precision="bf16")
    assert run(tmp_path / "cut", resume=Resume.LATEST, precision="bf16") == runs["bf16"][0]
    assert run(tmp_path / "again") == runs["fp32"][0]


def test_other_seeds_and_dropout_change_the_weights(tmp_path: Path) -> None:
    hashes = [run(tmp_path / "1"), run(tmp_path / "2", seed=6), run(tmp_path / "3", batch_size=4)]
    assert len(dict.fromkeys(hashes)) == 3


@pytest.mark.parametrize("accumulate", [1, 2])
def test_dropout_is_drawn_anew_for_every_part_of_every_step(
    tmp_path: Path, accumulate: int
) -> None:
    """And the same for the same step of a run that was stopped and resumed."""

    def values_of(folder: Path, stop_at: int) -> list[float]:
        values: list[float] = []
        model, watcher = toy_model(), Watcher()

        def note(*_: object) -> None:
            if torch.is_grad_enabled():  # labels are counted without, by the same numbers
                values.append(torch.rand(()).item())

        model.dropout.register_forward_hook(note)
        train(
            model, ToyData(), toy_config(steps=8, accumulate=accumulate), folder,
            reporter=watcher, resume=Resume.LATEST,
            should_stop=lambda: watcher.records[-1].step >= stop_at,
        )  # fmt: skip
        return values

    whole = values_of(tmp_path / "whole", 99)
    assert len(set(whole)) == len(whole) == 8 * accumulate
    assert values_of(tmp_path / "cut", 3) + values_of(tmp_path / "cut", 99) == whole


def test_the_callers_random_state_and_threads_are_left_alone(tmp_path: Path) -> None:
    threads, before = torch.get_num_threads(), torch.get_rng_state()
    torch.manual_seed(1)
    first = run(tmp_path / "1", steps=3, threads=2)
    value = torch.rand(1)
    torch.manual_seed(1)
    assert torch.rand(1) == value
    torch.manual_seed(2)
    assert run(tmp_path / "2", steps=3, threads=2) == first
    assert torch.get_num_threads() == threads
    torch.set_rng_state(before)


def test_accumulation_equals_a_big_batch(tmp_path: Path) -> None:
    """Without dropout, and with as many labels in every part."""
    models = []
    for name, how in (("big", (8, 1)), ("parts", (4, 2))):
        model = toy_model(dropout=0.0)
        config = toy_config(batch_size=how[0], accumulate=how[1], steps=6)
        train(model, ToyData(same_length=True), config, tmp_path / name)
        models.append(model)
    for (name, big), part in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(part, big, atol=2e-5, rtol=0, msg=name)


@pytest.mark.usefixtures("drawn_curves")
def test_training_lowers_the_loss_and_saves_the_model(tmp_path: Path) -> None:
    model, watcher = toy_model(), Watcher()
    config = toy_config(steps=60, learning_rate=0.03, objective_weights={"size": 0.0})
    result = train(model, ToyData(), config, tmp_path, reporter=watcher)
    losses = [record.losses["words"] for record in watcher.records]
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])
    assert watcher.records[0].total_loss == pytest.approx(losses[0])
    assert (result.stopped, result.step, result.last) == ("finished", 60, watcher.records[-1])
    assert weights_hash(ToyModel.from_pretrained(tmp_path)) == weights_hash(model)
    assert result.curves.read_bytes().startswith(b"\x89PNG")


def test_curves_are_there_before_the_end(tmp_path: Path) -> None:
    def evaluate(model: torch.nn.Module, step: int) -> dict[str, float]:
        assert (tmp_path / "curves.png").exists() == (step == 5)
        if step == 5:
            raise RuntimeError
        return {}

    with pytest.raises(RuntimeError):
        train(toy_model(), ToyData(), toy_config(evaluate_every=1), tmp_path, evaluate=evaluate)


def test_epochs_are_rounded_up_to_steps(tmp_path: Path) -> None:
    result = train(toy_model(), ToyData(), toy_config(steps=None, epochs=3, accumulate=2), tmp_path)
    assert result.n_steps == 8  # 3 epochs of 5 batches, two batches a step


def test_a_budget_stops_cleanly_and_resumes(tmp_path: Path) -> None:
    model = toy_model()
    result = train(model, ToyData(), toy_config(budget_minutes=1e-9), tmp_path)
    assert (result.stopped, result.step, result.checkpoint.name) == ("budget", 1, "step-00000001")
    with pytest.raises(UnfinishedError, match=r"its budget ended training at step 1 of \d+; the"):
        result.require_end()
    assert run(tmp_path, resume=Resume.LATEST) == run(tmp_path.with_name("whole"))


def test_evaluation_is_logged_and_disturbs_nothing(tmp_path: Path) -> None:
    seen: list[tuple[int, bool]] = []

    def evaluate(model: torch.nn.Module, step: int) -> dict[str, float]:
        seen.append((step, model.training))
        return {"drawn": float(torch.rand(1))}

    model = toy_model()
    train(model, ToyData(), toy_config(evaluate_every=5), tmp_path / "a", evaluate=evaluate)
    assert seen == [(5, False), (10, False), (12, False)]
    assert weights_hash(model) == run(tmp_path / "b")
    rows = read_log(tmp_path / "a/log.jsonl")
    assert [row["step"] for row in rows if row["kind"] == "evaluation"] == [5, 10, 12]


def test_norms_of_each_loss_change_no_weight(tmp_path: Path) -> None:
    how: dict[str, Any] = {"accumulate": 2, "log_every": 5}
    plain = run(tmp_path / "plain", gradient_norms_every=None, **how)
    assert run(tmp_path / "norms", gradient_norms_every=4, **how) == plain
    rows = {row["step"]: row for row in read_log(tmp_path / "norms/log.jsonl")}
    assert list(rows) == [1, 4, 5, 8, 10, 12]
    measured = {step for step, row in rows.items() if row["loss_gradient_norms"] is not None}
    assert measured == {1, 4, 8, 12}
    assert all(row["loss_gradient_norms"] is None for row in read_log(tmp_path / "plain/log.jsonl"))


def only_words(forward: Callable[..., KnowledgeOutput]) -> Callable[..., KnowledgeOutput]:
    def one_loss(batch: KnowledgeBatch) -> KnowledgeOutput:
        output = forward(batch)
        return dataclasses.replace(output, losses={"words": output.losses["words"]})

    return one_loss


def test_the_norm_of_one_unweighted_loss_takes_no_pass_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its numbers are those that a separate backward pass gives, bit by bit."""
    norms = {}
    for is_apart in (True, False):
        folder = tmp_path / str(is_apart)
        with monkeypatch.context() as patched:
            if is_apart:
                patched.setattr(_Run, "_is_whole_gradient", lambda *_: False)
            else:
                patched.setattr("kept.training.loop.loss_norms", None)
            model = toy_model()
            monkeypatch.setattr(model, "forward", only_words(model.forward))
            train(model, ToyData(), toy_config(gradient_norms_every=4), folder)
        norms[is_apart] = [row["loss_gradient_norms"] for row in read_log(folder / "log.jsonl")]
    assert norms[True] == norms[False]
    assert [norm is not None for norm in norms[True]] == [n in (1, 4, 8, 12) for n in range(1, 13)]


def test_norms_are_those_of_separate_backward_passes() -> None:
    model = toy_model(dropout=0.0)
    data = ToyData()
    batch = data.collate(
        [data.sample(i, epoch=0, seed=0) for i in range(4)], epoch=0, seed=0, step=0
    )
    shared = shared_parameters(model)
    assert not any(parameter is model.entities.weight for parameter in shared)
    norms = loss_norms(model(batch).losses | {"none": torch.tensor(1.0)}, shared)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert norms["none"] == 0
    for name in ("words", "size"):
        model.zero_grad(set_to_none=True)
        model(batch).losses[name].backward()
        squares = sum(float(p.grad.square().sum()) for p in shared if p.grad is not None)
        assert norms[name] == pytest.approx(squares**0.5, rel=1e-5)


def test_processes_add_up_the_gradient_of_every_parameter() -> None:
    """Also of one on which this process's share of a loss does not depend: all send alike."""

    messages = []

    class Two(Processes):
        def summed(self, gradients: list[torch.Tensor]) -> list[torch.Tensor]:
            messages.extend(each.tolist() for each in gradients)
            return [2 * each for each in gradients]

    used, unused = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    assert loss_norms({"x": 3 * used[0]}, [used, unused], Two(0, 2)) == {"x": 6.0}
    assert messages == [[3, 0], [0, 0]]


def test_the_shared_part_is_the_encoders() -> None:
    model = torch.nn.ModuleDict({"encoder": torch.nn.Linear(2, 2), "head": torch.nn.Linear(2, 2)})
    assert shared_parameters(model) == list(model["encoder"].parameters())
    model["encoder"].requires_grad_(False)
    assert shared_parameters(model) == []
    assert loss_norms({"x": model["head"](torch.ones(2)).sum()}, []) == {"x": 0.0}


def test_a_budget_of_processor_time_stops_too(tmp_path: Path) -> None:
    result = train(toy_model(), ToyData(), toy_config(budget_cpu_minutes=1e-9), tmp_path)
    assert (result.stopped, result.step) == ("budget", 1)
    assert result.cpu_seconds > 0


def test_costs_are_in_the_result_and_in_every_record(tmp_path: Path) -> None:
    watcher = Watcher()
    result = train(toy_model(), ToyData(), toy_config(accumulate=2), tmp_path, reporter=watcher)
    assert (result.first, result.last) == (watcher.records[0], watcher.records[-1])
    assert result.first is not None
    assert result.first.step == 1
    assert result.peak_memory_mib > 50
    for record in watcher.records:
        assert record.texts_per_second > 0
        assert 0 < record.peak_memory_mib <= result.peak_memory_mib
    ratio = watcher.records[-1].nodes_per_second / watcher.records[-1].texts_per_second
    sizes = [ToyData().n_nodes(i) for i in range(len(ToyData()))]
    assert min(sizes) <= ratio <= max(sizes)
    assert (
        train(
            toy_model(), ToyData(), toy_config(accumulate=2), tmp_path, resume=Resume.LATEST
        ).first
        is None
    )


def test_what_a_killed_process_left_half_written_is_swept(tmp_path: Path) -> None:
    run(tmp_path, stop_at=5)
    leftover = tmp_path / "checkpoints/.step-00000005.half"
    leftover.mkdir()
    (leftover / "model.safetensors").write_bytes(b"half")
    run(tmp_path, resume=Resume.LATEST)
    assert not leftover.exists()
    assert list_checkpoints(tmp_path / "checkpoints")
