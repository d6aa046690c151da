"""What every command that trains shares: reading its configuration, stopping, reporting."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from torch import cuda, nn

from kept.apps.cli.console import TerminalConsole
from kept.apps.cli.errors import mark_interrupted
from kept.apps.cli.progress import TrainingProgress
from kept.apps.cli.settings import read_setting
from kept.apps.cli.terminal import echo
from kept.apps.cli.training.guide import write_environment, write_guide
from kept.encoders.base import KnowledgeModel
from kept.errors import CheckpointError, ConfigError, KeptError
from kept.graphs.builder import BuilderConfig
from kept.graphs.cuts import Cut, longer_texts
from kept.model_files import EXTENDED
from kept.training.checkpoint import leave_finished, list_checkpoints
from kept.training.config import RunConfig, TrainConfig
from kept.training.costs import free_memory, memory_forecast, require_memory
from kept.training.log import Reporter
from kept.training.loop import Resume, TrainResult, train
from kept.training.processes.launch import rank_and_size
from kept.training.processes.together import leave_processes
from kg_loaders.disk.writing import claim
from kg_loaders.errors import ExistsError

if TYPE_CHECKING:
    from kept.training.finetuning.config import FinetuneConfig
    from kept.training.pretraining.config import PretrainConfig

Config = TypeVar("Config", bound=RunConfig)


def read_run(
    kind: type[Config],
    written: Path,
    fields: dict[str, Any],
    options: Any,
    complete: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
) -> tuple[Config, Resume]:
    """The configuration and how to resume; a resumed run without a file reads what it `written`.

    `options` are those of the command (`RunOptions`), `fields` the fields that they give.
    `complete` adds to a new run's fields those that are not given; a run's file, JSON, has all.
    """
    config_file, skip_damaged = options.config, getattr(options, "skip_damaged", False)
    if skip_damaged and not options.resume:
        raise ConfigError("--skip-damaged goes with --resume")
    how = Resume.NEVER
    if options.resume:
        how = Resume.NEWEST_GOOD if skip_damaged else Resume.LATEST
        config_file = config_file or (written if written.is_file() else None)
    if config_file is not None and config_file.suffix == ".json":
        complete = dict
    fields = fields | dict(map(read_setting, options.settings))
    return kind.read(config_file, fields, complete=complete), how


@dataclass(frozen=True)
class StartedRun:
    """A run of training: where it goes, how it resumes and is shown, and when it was started."""

    output: Path
    how: Resume
    console: TerminalConsole
    track: Sequence[str]
    start: float

    def train(
        self,
        model: KnowledgeModel,
        data: Any,
        config: FinetuneConfig | PretrainConfig,
        *,
        write: Callable[[], object],
        evaluate: Any = None,
    ) -> TrainResult:
        """Train behind a progress bar; the first process of a new run calls `write` before."""
        settings = config.model_dump(mode="json")
        with (
            catch_interrupt() as stop,
            TrainingProgress(self.console, foretells=True) as bar,
            tracking(bar, self.track, self.output, settings) as reporter,
        ):
            if not (rank_and_size().rank or list_checkpoints(self.output / "checkpoints")):
                write()
            return train(
                model,
                data,
                config.training,
                self.output,
                evaluate=evaluate,
                reporter=reporter,
                resume=self.how,
                should_stop=lambda: bool(stop),
                budget_since=self.start,
            )


@contextmanager
def run_folder(output: Path, *marks: str) -> Iterator[None]:
    """Hold the folder of a run; `ExistsError` unless it is new, empty or holds one of `marks`.

    Of several processes the first holds it, and all part at its end.
    """
    try:
        if rank_and_size().rank:
            yield
        else:
            with _held(output, marks):
                yield
    finally:
        if rank_and_size().n > 1:
            leave_processes()


@contextmanager
def _held(output: Path, marks: tuple[str, ...]) -> Iterator[None]:
    require_run_folder(output, *marks)  # before folders above it are made
    Path(os.path.realpath(output)).parent.mkdir(parents=True, exist_ok=True)
    with claim(output):  # before the folder is made, or taken away: another run may be filling it
        require_run_folder(output, *marks)
        output.mkdir(exist_ok=True)
        try:
            yield
        finally:
            with suppress(OSError):  # it is not empty
                output.rmdir()


def require_run_folder(output: Path, *marks: str) -> None:
    """Raise `ExistsError` for a folder that is not empty and holds none of the `marks` of a run."""
    if not output.exists():
        return
    if not output.is_dir():
        raise ExistsError(f"{output} is a file; name the folder of a run")
    if (output / EXTENDED).is_file():
        raise ExistsError(
            f"{output} is a run that kept extend made, and has no checkpoint to go on from; name a "
            "new folder, and give this one as the model to start from"
        )
    names = [path.name for path in output.iterdir() if not path.name.startswith(".")]
    if names and not {*marks} & {*names}:
        raise ExistsError(
            f"{output} holds {min(names)!r} and no run ({', '.join(marks)} would be there); "
            f"give a new folder"
        )


@contextmanager
def catch_interrupt() -> Iterator[list[int]]:
    """Collects the first Ctrl-C or SIGTERM; a second one ends the process as usual."""
    received: list[int] = []
    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if number == signal.SIGINT:
            mark_interrupted()
        for s, handler in before.items():
            signal.signal(s, handler)

    for s in before:
        signal.signal(s, note)
    try:
        yield received
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


@contextmanager
def tracking(
    reporter: Reporter, names: Sequence[str], output: Path, settings: Mapping[str, Any]
) -> Iterator[Reporter]:
    """Yield `reporter`, which hands on to the trackers that are named."""
    if not names:
        yield reporter
        return
    from kept.apps.integrations.trackers import Tracked

    with Tracked(reporter, names, output, settings) as tracked:
        yield tracked


def require_opens(kind: type[KnowledgeModel], output: Path, config: TrainConfig) -> None:
    """Open the model in `output` once, whose run is done only then.

    Raises `CheckpointError` for one that was written and cannot be opened. Weights that several
    processes share out are not gathered in one of them for it.
    """
    if rank_and_size().rank or config.shard:
        return
    try:
        kind.from_pretrained(output)
    except KeptError as error:
        raise CheckpointError(
            f"the model was written to {output} but cannot be opened: {error}"
        ) from error


def tell_longer(
    cuts: Sequence[Cut], builder: BuilderConfig, n_words: int, console: TerminalConsole
) -> None:
    """Print with which settings the host reads more of texts that were cut: up to `n_words`."""
    remedy = longer_texts(builder, n_words)
    if remedy and any(cut.n_cut for cut in cuts):
        console.print(f"to read texts up to the language model's {n_words} pieces: {remedy}")


def tell_memory(model: nn.Module, config: TrainConfig, console: TerminalConsole) -> None:
    """Print what training will hold, before it is allocated; ConfigError where it is not there."""
    forecast = memory_forecast(model, config, n_processes=rank_and_size().n)
    console.print(str(forecast))
    if config.device == "cpu" or not cuda.is_available():
        require_memory(forecast, free_memory())


def print_result(result: TrainResult, output: Path) -> None:
    """Print how the run ended, and its files."""
    endings = {
        "finished": "finished",
        "budget": "stopped at the time budget; continue with --resume",
        "request": "stopped on request; continue with --resume",
    }
    echo(f"step {result.step} of {result.n_steps}: {endings[result.stopped]}")
    if result.last is not None and result.last.losses:
        losses = ", ".join(f"{name} {value:.4f}" for name, value in result.last.losses.items())
        echo(f"losses of the last step: {losses}")
    echo(f"model in {output}, log in {result.log}, curves in {result.curves}")


def finish_run(
    output: Path,
    config: FinetuneConfig | PretrainConfig,
    result: TrainResult,
    goes_on: Sequence[str],
) -> None:
    """Write the guide of the folder, in the first process; a finished run keeps no checkpoint."""
    if rank_and_size().rank:
        return
    if result.stopped == "finished":
        leave_finished(output, resumable=config.training.schedule == "constant")
    write_environment(output, config, precision=result.precision, products=result.products)
    write_guide(output, config.kg, goes_on)
