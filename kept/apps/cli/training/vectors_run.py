"""What `kept vectors train` does: read the configuration, assemble, train, write."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.progress import Progress

from kept.apps.cli.console import TerminalConsole
from kept.apps.cli.terminal import echo
from kept.apps.cli.training.run import catch_interrupt, read_run, run_folder
from kept.errors import ConfigError
from kept.joint.assembly import Assembled, JointConfig
from kept.joint.options import VectorsOptions
from kept.joint.training import CHECKPOINT, CHECKPOINTS, train
from kg_loaders.disk.seals import is_of
from kg_loaders.disk.writing import write_text

CONFIG_FILE = "vectors.json"


def run(options: VectorsOptions) -> None:
    """Train, and print how it ended."""
    output, resume = options.output, options.resume
    written = output / CONFIG_FILE
    config, _ = read_run(JointConfig, written, options.fields(), options)
    if written.exists() and not resume:
        raise ConfigError(f"{output} has a run; continue it with --resume, or give a new folder")
    with run_folder(output, CONFIG_FILE):
        _train(_absolute(config), output, resume)


def _train(config: JointConfig, output: Path, resume: bool) -> None:
    start, console = time.monotonic(), TerminalConsole(stderr=True)
    assembled = Assembled(config)
    if assembled.note is not None:
        console.print(assembled.note)
    console.print(str(assembled.corpus))
    if not is_of(output / CHECKPOINTS, CHECKPOINT):
        write_text(output / CONFIG_FILE, config.model_dump_json(indent=2), force=True)
    n_steps = assembled.settings.epochs * assembled.space.n_steps
    with catch_interrupt() as stop, Progress(console=console) as bar:
        task = bar.add_task("training", total=n_steps)
        done = train(
            assembled.space, output, epochs=assembled.settings.epochs,
            fingerprint=assembled.fingerprint,
            resume=resume, checkpoint_seconds=config.checkpoint_seconds,
            should_stop=lambda: bool(stop),
            on_step=lambda step, loss: bar.update(
                task, completed=step, description=f"loss {loss:.3f}"
            ),
        )  # fmt: skip
    for epoch, loss in enumerate(done.losses, 1):
        echo(f"pass {epoch}: mean loss {loss:.4f}")
    if done.step < n_steps:
        echo(f"step {done.step} of {n_steps}: stopped by Ctrl-C; continue with --resume")
        return
    written = assembled.write(output, done.losses)
    seconds = time.monotonic() - start
    echo(f"{config.model}: {assembled.corpus!r}, in {seconds:.0f} s")
    echo(f"written: {', '.join(map(str, written))}")


def _absolute(config: JointConfig) -> JointConfig:
    paths: dict[str, Any] = {
        "kg": config.kg.resolve(),
        "text": tuple(path.resolve() for path in config.text),
    }
    if config.redirects is not None:
        paths["redirects"] = config.redirects.resolve()
    return config.model_copy(update=paths)
