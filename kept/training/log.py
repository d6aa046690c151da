"""The records of a run, their JSONL log, and its curves as a PNG."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from kept.errors import UnfinishedError
from kept.plotting import can_draw
from kg_loaders.disk.write_errors import write_errors
from kg_loaders.disk.writing import whole_file, write_text

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


Stop = Literal["finished", "budget", "request"]


@dataclass(frozen=True)
class StepRecord:
    """One optimiser step: unweighted `losses`, their weighted sum, and what it cost.

    `gradient_norm` is that of the dense part before clipping, `row_gradient_norm` that of the
    sparse tables; None where the model has no such part. `loss_gradient_norms` are those of each
    unweighted loss on the encoder's dense part, of the step's first batch; None at steps where they
    are not measured. `nodes_per_second` and `texts_per_second` are this process's means over its
    steps, waiting for batches included; `peak_memory_mib` is this process's; `seconds` adds up over
    resumes. `waiting_seconds` are those of this process in which the next batch was not there yet:
    more workers make them fewer. `groups`: the trained groups of the encoder, lowest first, under
    gradual unfreezing.
    """

    step: int
    n_steps: int
    epoch: int
    losses: dict[str, float]
    total_loss: float
    gradient_norm: float | None
    row_gradient_norm: float | None
    learning_rate: float
    nodes_per_second: float
    texts_per_second: float
    peak_memory_mib: float
    seconds: float
    waiting_seconds: float = 0.0
    loss_gradient_norms: dict[str, float] | None = None
    groups: tuple[str, ...] | None = None


class Reporter(Protocol):
    """Receives a run's records: a progress bar, a notebook, a test."""

    def step(self, record: StepRecord) -> None:
        """After every optimiser step."""
        ...

    def notice(self, message: str) -> None:
        """A message to the user: resumed from where, what was set aside."""
        ...


@dataclass(frozen=True)
class TrainResult:
    """How a run ended; it computed in `precision`, "fp32" or "bf16".

    `products`: the library of its products on a processor (`kept.layers.products`), None on a GPU.
    `first` and `last` are the records of this process's first and last step, None when there was
    none left; `cpu_seconds` and `peak_memory_mib` are of this process too, `seconds` of all.
    """

    step: int
    n_steps: int
    stopped: Stop
    seconds: float
    cpu_seconds: float
    peak_memory_mib: float
    first: StepRecord | None
    last: StepRecord | None
    checkpoint: Path
    log: Path
    curves: Path
    notices: tuple[str, ...]
    precision: str = "fp32"
    products: str | None = None

    def require_end(self) -> None:
        """Raise `UnfinishedError` unless every step was done: such a model is not evaluated."""
        if self.stopped != "finished":
            how = "its budget" if self.stopped == "budget" else "a request"
            raise UnfinishedError(
                f"{self.log.parent}: {how} ended training at step {self.step} of {self.n_steps}; "
                "the same call goes on from there (budget_minutes, budget_cpu_minutes may change)"
            )


class NoLog:
    """In place of `RunLog`, where another process writes it."""

    def step(self, record: StepRecord) -> None:
        """Nothing."""

    def evaluation(self, step: int, scores: dict[str, float]) -> None:
        """Nothing."""


class RunLog:
    """`log.jsonl`, one JSON object per line; a resumed run first drops the steps it will repeat."""

    def __init__(self, path: Path, *, resume_step: int) -> None:
        rows = [row for row in read_log(path) if row["step"] <= resume_step]
        write_text(path, "".join(json.dumps(row) + "\n" for row in rows), force=True)
        self._path = path

    def step(self, record: StepRecord) -> None:
        """Append a training step."""
        self._append({"kind": "step", **asdict(record)})

    def evaluation(self, step: int, scores: dict[str, float]) -> None:
        """Append scores of the model after `step`."""
        self._append({"kind": "evaluation", "step": step, "scores": scores})

    def _append(self, row: dict[str, Any]) -> None:
        with write_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def read_log(path: Path) -> list[dict[str, Any]]:
    """All whole lines; a last line that a killed process cut short is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]


def draw_curves(log: Path, png: Path) -> None:
    """Draw losses, their weighted total and the scores over steps, where matplotlib is there."""
    if not can_draw():
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # here: most draw nothing
    from matplotlib.figure import Figure

    rows = read_log(log)
    steps = [row for row in rows if row["kind"] == "step"]
    evaluations = [row for row in rows if row["kind"] == "evaluation"]
    figure = Figure(figsize=(8, 3.5 * (2 if evaluations else 1)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2 if evaluations else 1, 1, squeeze=False)[:, 0]
    losses = [{**row["losses"], "weighted total": row["total_loss"]} for row in steps]
    _plot(axes[0], [row["step"] for row in steps], losses, "loss")
    if evaluations:
        scores = [row["scores"] for row in evaluations]
        _plot(axes[1], [row["step"] for row in evaluations], scores, "score")
    with whole_file(png, force=True) as part:
        figure.savefig(part, format="png", dpi=120)


def _plot(axis: Any, steps: list[int], values: list[dict[str, float]], unit: str) -> None:
    names = dict.fromkeys(name for row in values for name in row)
    for index, name in enumerate(names):
        points = [(s, row[name]) for s, row in zip(steps, values, strict=True) if name in row]
        style = "-o" if len(points) < 30 else "-"
        colour = COLOURS[index % len(COLOURS)]
        axis.plot(*zip(*points, strict=True), style, color=colour, label=name, markersize=3)
    axis.set(xlabel="step", ylabel=unit)
    axis.spines[["top", "right"]].set_visible(False)
    if names:
        axis.legend(frameon=False)
