"""A teacher that reads a graph and students that read none, in a made-up world.

Only the graph says what somebody's occupation is, so what a student without it answers rightly has
gone into its weights.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from kept import hosts
from kept.heads.model import MAIN_LOSS, TEACHER_LOSS, KnowledgeForTask
from kept.lab.reading.arms import Arm
from kept.lab.reading.cell import Budget, Cell
from kept.lab.reading.conditions import OFF, REDRAWN, TRUE
from kept.lab.reading.trial import Opened, ReadingTrial, training_of
from kept.lab.reading.worlds import RETURNING, Size
from kept.lab.study.origins import fingerprint_of, stored_with
from kept.methods import method
from kept.randomness import torch_seed
from kept.tasks.datasets.example import TaskExample
from kept.tasks.kinds import SINGLE
from kept.training.finetuning.data import TaskData
from kept.training.finetuning.run import class_logits, predict
from kept.training.loop import train

PLAIN = Arm(method="none")
Open = Callable[[], Opened]
"""A new host and its tokenizer: training changes a host."""
TEXTS_EACH = 4
ROWS = {
    "teacher": "reads the graph",
    "teacher, no links": "the same model without links, so without facts",
    "labels": "the plain host, trained on the labelled texts",
    "taught": "the plain host, trained by the teacher on the texts to transfer",
    "taught by another": "the same, by a teacher that there reads other people's facts",
}
RowAnswers = dict[str, dict[str, list[bool]]]
ASKED = ("seen people, new texts", "unseen people")


class DistillationStudy(BaseModel):
    """All settings; `arm` is a way to run a method that reads (`kept.lab.reading.arms`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    arm: str
    seeds: tuple[int, ...]
    labelled: PositiveInt
    transferred: PositiveInt
    unseen: PositiveInt
    teacher_steps: PositiveInt
    student_steps: PositiveInt
    batch_size: PositiveInt
    learning_rate: PositiveFloat
    host: str = "minilm"
    n_layers: PositiveInt | None = 3

    def cell(self, seed: int, *, steps: int, condition: str = "true") -> Cell:
        """The teacher's training, or a student's."""
        return Cell(
            task="occupation", arm=self.arm, condition=condition, seed=seed,
            size=Size(form=RETURNING, n_train=TEXTS_EACH * (self.labelled + self.transferred),
                      n_returning=self.labelled + self.transferred, n_test=self.unseen),
            budget=Budget(steps=steps, batch_size=self.batch_size, host=self.host,
                          learning_rate=self.learning_rate, n_layers=self.n_layers),
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Texts:
    """The texts of each purpose."""

    labelled: list[TaskExample]
    transferred: list[TaskExample]
    asked: dict[str, list[TaskExample]]


def run_seed(study: DistillationStudy, seed: int, out: Path, opened: Open) -> RowAnswers:
    """By row and by what is asked, whether each answer is right.

    A row that is stored in `out` is not run again.
    """
    cell = study.cell(seed, steps=study.teacher_steps)
    bench = ReadingTrial.of(cell, opened())
    texts = split_texts(study, bench)
    origin = {
        "settings": fingerprint_of(study.model_dump(mode="json", exclude={"seeds"})),
        "data": cell.key,
    }

    def answers() -> RowAnswers:
        return _answers(study, seed, opened, bench, texts)

    rows: RowAnswers = stored_with(out / f"{seed}.json", origin, answers)
    return rows


def _answers(
    study: DistillationStudy, seed: int, opened: Open, bench: ReadingTrial, texts: Texts
) -> RowAnswers:
    told: RowAnswers = {}
    _train(bench, bench.data(texts.labelled, is_training=True), study.teacher_steps)
    told["teacher"] = _asked(bench, texts)
    told["teacher, no links"] = _asked(bench, texts, condition=OFF)
    told["labels"] = _student(study, seed, opened, bench, texts, None)
    told["taught"] = _student(study, seed, opened, bench, texts, TRUE)
    told["taught by another"] = _student(study, seed, opened, bench, texts, REDRAWN)
    return told


def split_texts(study: DistillationStudy, bench: ReadingTrial) -> Texts:
    """Each person has `TEXTS_EACH` texts: text j of person i is number i + j * people."""
    train, n = bench.world.train, study.labelled + study.transferred
    rounds = [train[j * n : (j + 1) * n] for j in range(TEXTS_EACH)]
    transferred = [text for each in rounds[:-1] for text in each[study.labelled :]]
    asked = dict(zip(ASKED, (rounds[-1][study.labelled :], bench.world.test), strict=True))
    return Texts(rounds[0][: study.labelled], transferred, asked)


def plain(study: DistillationStudy, seed: int, opened: Open, bench: ReadingTrial) -> ReadingTrial:
    """A student: the host alone under a new head for the same classes."""
    host, tokenizer = opened()
    with torch.random.fork_rng():
        torch.manual_seed(torch_seed(seed, "student"))
        encoder = method("none").encoder.for_graph(host, bench.graph, tokenizer, seed=seed)
        model = KnowledgeForTask.of(
            encoder, "targets", bench.world.classes, problem_type=SINGLE, n_targets=1
        )
    hosts.word_table(host).requires_grad_(False)  # as the teacher's: names teach it nothing
    cell = study.cell(seed, steps=study.student_steps)
    return dataclasses.replace(bench, cell=cell, arm=PLAIN, model=model)


def _student(
    study: DistillationStudy,
    seed: int,
    opened: Open,
    bench: ReadingTrial,
    texts: Texts,
    taught: str | None,
) -> dict[str, list[bool]]:
    """A student of labels alone (None), or of the teacher under a condition in the unlabelled."""
    student = plain(study, seed, opened, bench)
    if taught is None:
        _train(student, student.data(texts.labelled, is_training=True), study.student_steps)
        return _asked(student, texts)
    data = student.data(texts.transferred, is_training=True)
    data.learn_from(class_logits(bench.model, bench.data(texts.transferred, condition=taught)))
    weights = {MAIN_LOSS: 0.0, TEACHER_LOSS: 1.0}
    _train(student, data, study.student_steps, objective_weights=weights)
    return _asked(student, texts)


def _train(bench: ReadingTrial, data: TaskData, steps: int, **fields: object) -> None:
    training = training_of(bench.cell, steps, evaluate_every=None, threads=1, **fields)
    with tempfile.TemporaryDirectory(prefix="kept-distillation-") as folder:
        train(bench.model, data, training, Path(folder))


def _asked(
    bench: ReadingTrial, texts: Texts, condition: str | None = None
) -> dict[str, list[bool]]:
    found = {}
    for name, examples in texts.asked.items():
        data = bench.data(examples, condition=condition)
        answers = predict(bench.model, data, threshold=0.0)
        found[name] = [a == e.labels for a, e in zip(answers, examples, strict=True)]
    return found


def milliseconds(
    study: DistillationStudy, opened: Open, seed: int = 0, repeats: int = 5
) -> dict[str, float]:
    """Processor milliseconds a text, of teacher and student: graph, view and forward; the best of
    `repeats`, the two in turn."""
    bench = ReadingTrial.of(study.cell(seed, steps=study.teacher_steps), opened())
    student = plain(study, seed, opened, bench)
    texts = bench.world.test
    best: dict[str, float] = {}
    for _ in range(repeats):
        for name, each in (("teacher", bench), ("student", student)):
            began = time.process_time()
            predict(each.model, each.data(texts), threshold=0.0)
            spent = 1000 * (time.process_time() - began) / len(texts)
            best[name] = min(spent, best.get(name, spent))
    return best
