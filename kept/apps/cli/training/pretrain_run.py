"""What `kept pretrain` does: read the configuration, assemble, train, report the outcome."""

from __future__ import annotations

import time
from pathlib import Path

from kept.apps.cli.console import TerminalConsole
from kept.apps.cli.training.run import (
    StartedRun,
    finish_run,
    print_result,
    read_run,
    require_opens,
    run_folder,
    tell_longer,
    tell_memory,
)
from kept.apps.integrations.trackers import require_trackers
from kept.hosts import load_tokenizer, n_positions
from kept.objectives.model import KnowledgeForPreTraining
from kept.results import Result
from kept.training.loop import TrainResult
from kept.training.pretraining.assembly import assemble
from kept.training.pretraining.config import PretrainConfig
from kept.training.pretraining.data import WordGraphData
from kept.training.pretraining.options import PretrainOptions
from kept.training.pretraining.recipes import with_defaults
from kept.training.processes.launch import rank_and_size, require_several
from kept.training.processes.shards import tables_in_parts
from kg_loaders.disk.writing import whole_files, write_json, write_text

CONFIG_FILE, COVERAGE_FILE = "pretrain.json", "coverage.json"
GOES_ON = (
    "kept pretrain --config RUN/pretrain.json -o again  # the same result, bit by bit",
    "kept finetune --task TASK --format FORMAT --train train.txt --kg KG --model RUN -o runs/task",
    "kept probe RUN --kg KG",
    "kept serve --kg KG --model RUN",
)


def run(options: PretrainOptions) -> Result:
    """Train, print and return the outcome."""
    start, output = time.monotonic(), options.output
    if options.track:
        require_trackers(options.track)
    written = output / CONFIG_FILE
    config, how = read_run(PretrainConfig, written, options.fields(), options, with_defaults)
    require_several(config.training.shard)
    with run_folder(output, CONFIG_FILE, "checkpoints"):
        console = TerminalConsole(stderr=True)
        started = StartedRun(output, how, console, options.track, start)
        result = _train(config.with_absolute_paths(), started)
        require_opens(KnowledgeForPreTraining, output, config.training)
        finish_run(output, config, result, GOES_ON)
    print_result(result, output)
    losses = result.last.losses if result.last is not None else {}
    values = {"stopped": result.stopped, "step": result.step, "losses": losses}
    return Result(values=values, folder=output)


def _train(config: PretrainConfig, started: StartedRun) -> TrainResult:
    output, console = started.output, started.console
    model, data = assemble(config)
    console.print(str(data))
    if isinstance(data, WordGraphData):
        _tell_coverage(data, console)
        longest, _ = data.view.within_positions(n_positions(model.encoder.host), config.view)
        tell_longer([data.cut], data.builder, longest, console)
    tell_memory(model, config.training, console)

    def write() -> None:
        write_text(output / CONFIG_FILE, config.model_dump_json(indent=2), force=True)
        if isinstance(data, WordGraphData):
            _write_coverage(data, output)
        with whole_files(output) as part:
            load_tokenizer(config.host).save_pretrained(part)

    result = started.train(model, data, config, write=write)
    if not rank_and_size().rank:
        _whole(model, config, output).encoder.save_trained_parts(output)
    return result


def _whole(
    model: KnowledgeForPreTraining, config: PretrainConfig, output: Path
) -> KnowledgeForPreTraining:
    """The trained model; where this process holds a part of its layers, as they were written."""
    if not config.training.shard:
        return model
    with tables_in_parts(config.training):
        whole = KnowledgeForPreTraining.from_pretrained(output)
    for written, trained in zip(whole.parameters(), model.parameters(), strict=True):
        written.requires_grad_(trained.requires_grad)
    return whole


def _tell_coverage(data: WordGraphData, console: TerminalConsole) -> None:
    """Print in how many texts anything of the graph is shown to the model."""
    for note in data.notes:
        console.print(note)
    console.print(str(data.coverage))
    for line in data.cautions:
        console.print(f"warning: {line}")


def _write_coverage(data: WordGraphData, output: Path) -> None:
    """Write the same to a file of the run."""
    coverage = data.coverage.as_json() | {"objectives": data.shares_read}
    write_json(output / COVERAGE_FILE, coverage, force=True)
