"""A model that learns from another one's logits."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from entity_linking import RelationExample
from kept.apps.cli import app
from kept.errors import BatchError, ConfigError
from kept.heads.model import TEACHER_LOSS, teacher_loss
from kept.layers.means import counted_by
from kept.tasks.datasets.formats import read_examples
from kept.training.finetuning.assembly import assemble
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.predictor import Predictor
from kept.training.finetuning.run import class_logits
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_task_files import wiki80_row

STEPS = ("--set", "training.steps=2", "--set", "training.threads=1", "--batch-size", "4")


@pytest.fixture(scope="module")
def files(
    tmp_path_factory: pytest.TempPathFactory, examples: list[RelationExample], world: KnowledgeGraph
) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    world.save(folder / "kg")
    rows = [json.dumps(wiki80_row(example)) for example in examples[:48]]
    (folder / "train.txt").write_text("\n".join(rows[:32]), encoding="utf-8")
    (folder / "dev.txt").write_text("\n".join(rows[32:]), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def teacher(files: Path, host: Path) -> Path:
    """A trained K-BERT."""
    out = files / "teacher"
    result = CliRunner().invoke(app, [
        "finetune", "--task", "relation", "--format", "wiki80", "--train", f"{files}/train.txt",
        "--dev", f"{files}/dev.txt", "--kg", f"{files}/kg", "--method", "kbert",
        "--host", str(host), *STEPS, "-o", str(out),
    ])  # fmt: skip
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture
def config(files: Path, teacher: Path, host: Path) -> FinetuneConfig:
    return FinetuneConfig.model_validate({
        "task": "relation", "format": "wiki80", "train": files / "train.txt",
        "dev": files / "dev.txt", "kg": files / "kg", "method": "none", "host": str(host),
        "teacher": teacher,
        "training": {"steps": 2, "batch_size": 4, "device": "cpu", "threads": 1},
    })  # fmt: skip


def test_samples_bring_what_the_teacher_says(config: FinetuneConfig) -> None:
    run = assemble(config)
    samples = [run.train.sample(i, epoch=0, seed=0) for i in range(4)]
    batch = run.train.collate(samples, epoch=0, seed=0, step=0)
    output = run.model(batch)
    assert batch.teacher_logits is not None
    expected = ((output.class_logits - batch.teacher_logits) ** 2).mean()
    torch.testing.assert_close(output.losses[TEACHER_LOSS], expected)
    assert set(output.losses) == {"class", TEACHER_LOSS}
    alone = assemble(config.model_copy(update={"teacher": None})).train
    assert alone.fingerprint != run.train.fingerprint
    assert alone.sample(0, epoch=0, seed=0).same_as(samples[0], but=("teacher_logits",))


def test_the_teacher_reads_by_its_own_method(
    config: FinetuneConfig, teacher: Path, files: Path
) -> None:
    """Its logits are those of `kept predict` on the unmarked texts: facts of the pair hidden."""
    run, opened = assemble(config), Predictor.from_pretrained(teacher)
    graph = KnowledgeGraph.open(files / "kg")
    read = {e.linked.text: e for e in read_examples(files / "train.txt", "wiki80")}
    plain = [read[example.unmarked] for example in run.train.examples]
    logits = opened.logits(plain, graph)
    for i in range(len(plain)):
        sample = run.train.sample(i, epoch=0, seed=0)
        assert sample.teacher_logits is not None
        torch.testing.assert_close(sample.teacher_logits[0], logits[i])
    unlinked = [
        dataclasses.replace(e, linked=dataclasses.replace(e.linked, links=())) for e in plain
    ]
    data = opened._data(unlinked, graph)
    assert not torch.allclose(class_logits(opened.model, data), logits)  # it does read


def test_rows_without_an_answer_count_for_nothing() -> None:
    logits = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    teacher = torch.tensor([[0.0, 0.0], [float("nan"), float("nan")]])
    loss = teacher_loss(logits, teacher)
    assert loss.item() == pytest.approx(2.5)
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert not logits.grad[1].any()
    assert teacher_loss(logits, teacher[[1, 1]]).item() == 0
    with pytest.raises(BatchError, match=r"\(2, 3\).*\(2, 2\)"):
        teacher_loss(logits, torch.zeros(2, 3))


def test_shares_of_several_processes_add_up_to_the_loss_of_the_batch() -> None:
    draws = torch.Generator().manual_seed(0)
    logits, teacher = (torch.randn(5, 3, generator=draws) for _ in range(2))
    teacher[1] = float("nan")
    whole = teacher_loss(logits, teacher)
    with counted_by(lambda total, _: (total, 4 * 3)):
        shares = [teacher_loss(logits[s], teacher[s]) for s in (slice(0, 2), slice(2, 5))]
    torch.testing.assert_close(sum(shares), whole)
    assert not torch.isclose(
        (teacher_loss(logits[:2], teacher[:2]) + teacher_loss(logits[2:], teacher[2:])) / 2, whole
    )


def test_a_teacher_of_other_classes_or_tasks_is_refused(
    config: FinetuneConfig, files: Path, tmp_path: Path
) -> None:
    rows = (files / "train.txt").read_text("utf-8").splitlines()
    rows[0] = json.dumps({**json.loads(rows[0]), "relation": "unheard of"})
    other = tmp_path / "train.txt"
    other.write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(ConfigError, match="no class 'unheard of'; it has"):
        assemble(config.model_copy(update={"train": other}))
    opened = Predictor.from_pretrained(config.teacher or Path())
    with pytest.raises(ConfigError, match="trained for relation, not typing"):
        opened.classes_for("typing", [])


def test_a_student_trains_from_the_command(files: Path, teacher: Path, host: Path) -> None:
    out = files / "student"
    result = CliRunner().invoke(app, [
        "finetune", "--task", "relation", "--format", "wiki80", "--train", f"{files}/train.txt",
        "--dev", f"{files}/dev.txt", "--kg", f"{files}/kg", "--method", "none",
        "--host", str(host), *STEPS, "--set", f"teacher={teacher}",
        "--set", "training.objective_weights={class: 0}", "--set", "training.log_every=1",
        "-o", str(out),
    ])  # fmt: skip
    assert result.exit_code == 0, result.output
    first = json.loads((out / "log.jsonl").read_text("utf-8").splitlines()[0])
    assert set(first["losses"]) == {"class", TEACHER_LOSS}
    assert first["total_loss"] == pytest.approx(first["losses"][TEACHER_LOSS])


def test_questions_of_many_answers_have_no_teacher(config: FinetuneConfig) -> None:
    values = {"task": "tagging", "format": "conll", "markers": None}
    with pytest.raises(ValueError, match="teacher: tagging has no one answer"):
        FinetuneConfig.model_validate(config.model_dump() | values)
