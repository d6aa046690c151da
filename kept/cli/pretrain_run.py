"""What `kept pretrain` does: read the configuration, assemble, train, say how it ended."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from rich.console import Console
from transformers.utils.logging import disable_progress_bar

from kept.cli.progress import TrainingProgress
from kept.cli.settings import read_setting
from kept.errors import ConfigError
from kept.hosts import load_tokenizer
from kept.training.checkpoint import list_checkpoints
from kept.training.config import PretrainConfig
from kept.training.loop import Resume, TrainResult, train
from kept.training.methods import assemble

CONFIG_FILE = "pretrain.json"


def run(
    flags: dict[str, Any],
    settings: Sequence[str],
    *,
    output: Path,
    config_file: Path | None,
    resume: bool,
    skip_damaged: bool,
) -> None:
    """Train and say how it ended."""
    console = Console(stderr=True)
    if skip_damaged and not resume:
        raise ConfigError("--skip-damaged goes with --resume")
    how = Resume.NEVER
    if resume:
        how = Resume.NEWEST_GOOD if skip_damaged else Resume.LATEST
        written = output / CONFIG_FILE
        config_file = config_file or (written if written.is_file() else None)
    config = PretrainConfig.read(config_file, flags | dict(map(read_setting, settings)))
    result = _train(config.with_absolute_paths(), output, how, console)
    _tell(result, output)


def _train(config: PretrainConfig, output: Path, how: Resume, console: Console) -> TrainResult:
    disable_progress_bar()
    model, data = assemble(config)
    console.print(str(data), markup=False, highlight=False)
    output.mkdir(parents=True, exist_ok=True)
    with _asked_to_stop() as stop, TrainingProgress(console) as bar:
        if not list_checkpoints(output / "checkpoints"):
            (output / CONFIG_FILE).write_text(config.model_dump_json(indent=2), encoding="utf-8")
            load_tokenizer(config.host).save_pretrained(output)
        return train(
            model,
            data,
            config.training,
            output,
            reporter=bar,
            resume=how,
            should_stop=lambda: bool(stop),
        )


@contextmanager
def _asked_to_stop() -> Iterator[list[int]]:
    """Collects the first Ctrl-C or SIGTERM; a second one ends the process as usual."""
    received: list[int] = []
    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        for s, handler in before.items():
            signal.signal(s, handler)

    for s in before:
        signal.signal(s, note)
    try:
        yield received
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


def _tell(result: TrainResult, output: Path) -> None:
    endings = {
        "finished": "finished",
        "budget": "stopped at the time budget; go on with --resume",
        "request": "stopped as asked; go on with --resume",
    }
    typer.echo(f"step {result.step} of {result.n_steps}: {endings[result.stopped]}")
    if result.last is not None:
        losses = ", ".join(f"{name} {value:.4f}" for name, value in result.last.losses.items())
        typer.echo(f"losses of the last step: {losses}")
    typer.echo(f"model in {output}, log in {result.log}, curves in {result.curves}")
