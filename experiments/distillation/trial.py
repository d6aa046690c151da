"""`python -m experiments distillation CONFIG -o RUN`: students of a model that reads a graph.

A teacher that reads a graph and students that read none, in a made-up world.

Only the graph says what somebody's occupation is, so what a student without it answers rightly has
gone into its weights.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from pydantic import PositiveFloat, PositiveInt

from experiments.command import Results, announce, run_study
from kept import hosts
from kept.evaluation.crossed import difference
from kept.evaluation.paired import Counts, accuracy_counts, f1_value
from kept.heads.model import MAIN_LOSS, TEACHER_LOSS, KnowledgeForTask
from kept.lab.reading.arms import Arm
from kept.lab.reading.cell import Budget, Cell, open_host
from kept.lab.reading.conditions import OFF, REDRAWN, TRUE
from kept.lab.reading.trial import Opened, ReadingTrial, training_of
from kept.lab.reading.worlds import RETURNING, Size
from kept.lab.study.cells import mean_effect, page_of
from kept.lab.study.origins import fingerprint_of, stored_with
from kept.lab.study.tables import Table, with_interval
from kept.methods import method
from kept.randomness import torch_seed
from kept.tasks.datasets.example import TaskExample
from kept.tasks.kinds import SINGLE
from kept.training.config import RunConfig
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
STUDENTS = {"labels": None, "taught": TRUE, "taught by another": REDRAWN}
"""By row, the condition of the teacher in the texts to transfer; None: there is no teacher."""
RowAnswers = dict[str, dict[str, list[bool]]]
PEOPLE = ("seen people, new texts", "unseen people")


class DistillationStudy(RunConfig):
    """All settings; `arm` is a way to run a method that reads (`kept.lab.reading.arms`)."""

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
    evaluation: dict[str, list[TaskExample]]


def run_seed(study: DistillationStudy, seed: int, out: Path, opened: Open) -> RowAnswers:
    """Return by row and people whether each answer is right.

    A row that is stored in `out` is not run again.
    """
    cell = study.cell(seed, steps=study.teacher_steps)
    trial = ReadingTrial.of(cell, opened())
    texts = split_texts(study, trial)
    origin = {
        "settings": fingerprint_of(study.model_dump(mode="json", exclude={"seeds"})),
        "data": cell.key,
    }

    def answers() -> RowAnswers:
        _train(trial, trial.data(texts.labelled, is_training=True), study.teacher_steps)
        rows = {
            "teacher": _answers(trial, texts),
            "teacher, no links": _answers(trial, texts, condition=OFF),
        }
        for row, condition in STUDENTS.items():
            rows[row] = _student(study, seed, opened, trial, texts, condition)
        return rows

    rows: RowAnswers = stored_with(out / f"{seed}.json", origin, answers)
    return rows


def split_texts(study: DistillationStudy, trial: ReadingTrial) -> Texts:
    """Each person has `TEXTS_EACH` texts: text j of person i is number i + j * people."""
    train, n = trial.world.train, study.labelled + study.transferred
    rounds = [train[j * n : (j + 1) * n] for j in range(TEXTS_EACH)]
    transferred = [text for each in rounds[:-1] for text in each[study.labelled :]]
    evaluation = dict(zip(PEOPLE, (rounds[-1][study.labelled :], trial.world.test), strict=True))
    return Texts(rounds[0][: study.labelled], transferred, evaluation)


def plain(study: DistillationStudy, seed: int, opened: Open, trial: ReadingTrial) -> ReadingTrial:
    """A student: the host alone under a new head for the same classes."""
    host, tokenizer = opened()
    with torch.random.fork_rng():
        torch.manual_seed(torch_seed(seed, "student"))
        encoder = method("none").encoder.for_graph(host, trial.graph, tokenizer, seed=seed)
        model = KnowledgeForTask.of(
            encoder, "targets", trial.world.classes, problem_type=SINGLE, n_targets=1
        )
    hosts.word_table(host).requires_grad_(False)  # as the teacher's: names teach it nothing
    cell = study.cell(seed, steps=study.student_steps)
    return dataclasses.replace(trial, cell=cell, arm=PLAIN, model=model)


def _student(
    study: DistillationStudy,
    seed: int,
    opened: Open,
    trial: ReadingTrial,
    texts: Texts,
    condition: str | None,
) -> dict[str, list[bool]]:
    """A student of labels alone (None), or of the teacher under a condition in the unlabelled."""
    student = plain(study, seed, opened, trial)
    if condition is None:
        _train(student, student.data(texts.labelled, is_training=True), study.student_steps)
        return _answers(student, texts)
    data = student.data(texts.transferred, is_training=True)
    data.learn_from(class_logits(trial.model, trial.data(texts.transferred, condition=condition)))
    weights = {MAIN_LOSS: 0.0, TEACHER_LOSS: 1.0}
    _train(student, data, study.student_steps, objective_weights=weights)
    return _answers(student, texts)


def _train(trial: ReadingTrial, data: TaskData, steps: int, **fields: object) -> None:
    training = training_of(trial.cell, steps, evaluate_every=None, threads=1, **fields)
    with tempfile.TemporaryDirectory(prefix="kept-distillation-") as folder:
        train(trial.model, data, training, Path(folder))


def _answers(
    trial: ReadingTrial, texts: Texts, condition: str | None = None
) -> dict[str, list[bool]]:
    right = {}
    for name, examples in texts.evaluation.items():
        data = trial.data(examples, condition=condition)
        answers = predict(trial.model, data, threshold=0.0)
        right[name] = [a == e.labels for a, e in zip(answers, examples, strict=True)]
    return right


def milliseconds(
    study: DistillationStudy, opened: Open, seed: int = 0, repeats: int = 5
) -> dict[str, float]:
    """Processor milliseconds a text, of teacher and student: graph, view and forward; the best of
    `repeats`, the two in turn."""
    trial = ReadingTrial.of(study.cell(seed, steps=study.teacher_steps), opened())
    student = plain(study, seed, opened, trial)
    texts = trial.world.test
    best: dict[str, float] = {}
    for _ in range(repeats):
        for name, each in (("teacher", trial), ("student", student)):
            began = time.process_time()
            predict(each.model, each.data(texts), threshold=0.0)
            spent = 1000 * (time.process_time() - began) / len(texts)
            best[name] = min(spent, best.get(name, spent))
    return best


# ---- the page --------------------------------------------------------------
def page(
    study: DistillationStudy,
    seeds: Sequence[RowAnswers],
    spent: Mapping[str, float],
    command: str,
) -> str:
    """Return accuracies, what the transfer of true facts is worth, and the cost of a text."""
    rows = []
    for row, says in ROWS.items():
        shares = [with_interval(mean_effect(counts(seeds, row, name))) for name in PEOPLE]
        rows.append([row, *shares, says])
    gains = []
    for name in PEOPLE:
        ours, theirs = (list(counts(seeds, row, name)) for row in ("taught", "taught by another"))
        gain = with_interval(difference(ours, theirs, f1_value))
        gains.append(f"{name}: distilled − distilled from another {gain}")
    ratio = spent["teacher"] / spent["student"]
    return page_of(
        "A plain host trained by one that reads the graph", command,
        f"Accuracy, 95 % intervals over {len(study.seeds)} seeds and people; by chance .125.",
        Table(("", *PEOPLE, ""), rows), *gains,
        "Processor milliseconds a text, from linked text to answer: teacher "
        f"{spent['teacher']:.2f}, student {spent['student']:.2f} (÷ {ratio:.2f}).",
    )  # fmt: skip


def counts(seeds: Sequence[RowAnswers], row: str, people: str) -> Counts:
    """Return `[seed person count]`: rightly answered, predicted, asked."""
    return accuracy_counts([seed[row][people] for seed in seeds])


def run(study: DistillationStudy, arguments: argparse.Namespace) -> Results:
    """Run the seeds that are missing; return the page and every answer."""
    budget = study.cell(study.seeds[0], steps=1).budget
    seeds = []
    for seed in study.seeds:
        seeds.append(run_seed(study, seed, arguments.out, lambda: open_host(budget)))
        for row in ROWS:
            shares = {name: sum(right) / len(right) for name, right in seeds[-1][row].items()}
            announce(f"seed {seed}, {row}: {shares}")
    spent = milliseconds(study, lambda: open_host(budget))
    return page(study, seeds, spent, arguments.command), {"right": seeds, "milliseconds": spent}


if __name__ == "__main__":
    run_study(__doc__, DistillationStudy, run)
