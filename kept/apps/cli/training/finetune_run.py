"""What `kept finetune` does: read the configuration, assemble, train, score, report the outcome."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kept.apps.cli.console import TerminalConsole
from kept.apps.cli.terminal import echo
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
from kept.heads.model import KnowledgeForTask
from kept.results import Result
from kept.tasks.kinds import task_kind
from kept.training.finetuning.answers import ANSWERS, answers_of, write_answers
from kept.training.finetuning.assembly import assemble
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.options import FinetuneOptions
from kept.training.finetuning.recipes import budget_warning, with_defaults
from kept.training.finetuning.run import FinetuneRun
from kept.training.finetuning.shortfall import shortfall
from kept.training.loop import TrainResult
from kept.training.processes.launch import rank_and_size, require_several
from kept.training.processes.together import processes, report_dead_process
from kg_loaders.disk.writing import whole_files, write_json, write_text

CONFIG_FILE, METRICS_FILE = "finetune.json", "metrics.json"
GOES_ON = (
    "kept finetune --config RUN/finetune.json -o again  # the same result, bit by bit",
    'kept predict RUN "A text." --kg KG --explain',
    "kept explore --kg KG --model RUN --open",
    "kept curve RUN -o curve/",
)


def run(fields: dict[str, Any], options: FinetuneOptions) -> Result:
    """Train, score the model of the last step on dev and test, return and print the outcome.

    `fields` are those of the configuration that are given.
    """
    output = options.output
    has_file = options.config is not None or (options.resume and (output / CONFIG_FILE).is_file())
    if not has_file and _is_dev_wanted(fields, options.settings):
        dev_file = dev_file_of(fields["train"])
        if dev_file is not None:
            echo(
                f"dev: {dev_file}, found in the folder of the training file (choose another "
                f"with --dev)"
            )
            fields = {**fields, "dev": dev_file}
    start = time.monotonic()
    if options.track:
        require_trackers(options.track)
    written = output / CONFIG_FILE
    config, how = read_run(FinetuneConfig, written, fields, options, with_defaults)
    require_several(config.training.shard)
    console = TerminalConsole(stderr=True)
    with run_folder(output, CONFIG_FILE, "checkpoints"):
        assembled = assemble(config.with_absolute_paths())
        console.print(str(assembled.data))
        if dropped := assembled.facts["n_train_repeats_dropped"]:
            console.print(
                f"{dropped} training examples were dropped: their texts are in dev or test too "
                "(--set keep_repeats=true keeps them)"
            )
        for warning in assembled.facts.get("warnings", ()):
            console.print(f"warning: {warning}")
        for name, coverage in assembled.coverage.items():
            console.print(f"{name}: {coverage}")
        tell_longer(
            [data.cut for data in (assembled.train, *assembled.evaluation.values())],
            assembled.train.builder, assembled.longest_text, console,
        )  # fmt: skip
        for line in assembled.cautions:
            console.print(f"warning: {line}")
        if short := budget_warning(assembled.config, len(assembled.train)):
            console.print(f"warning: {short}")
        tell_memory(assembled.model, config.training, console)
        result = _train(assembled, StartedRun(output, how, console, options.track, start))
        require_opens(KnowledgeForTask, output, config.training)
        if result.stopped == "finished":
            _score(assembled, output, result.precision)
        finish_run(output, config, result, GOES_ON)
    print_result(result, output)
    metrics = output / METRICS_FILE
    has_scores = result.stopped == "finished" and metrics.is_file()
    values = json.loads(metrics.read_text(encoding="utf-8")) if has_scores else {}
    return Result(values=values | {"stopped": result.stopped}, folder=output)


def dev_file_of(train: Path) -> Path | None:
    """The development file that lies beside a training file, named as it is but for `train`."""
    for word in ("dev", "valid", "validation"):
        candidate = train.with_name(train.name.replace("train", word))
        if candidate != train and candidate.is_file():
            return candidate
    return None


def _is_dev_wanted(flags: dict[str, Any], settings: Sequence[str]) -> bool:
    named = {each.partition("=")[0].strip() for each in settings}
    return "train" in flags and "dev" not in flags and named.isdisjoint({"dev", "dev_share"})


def _train(assembled: FinetuneRun, started: StartedRun) -> TrainResult:
    config = assembled.config

    def write() -> None:
        write_text(started.output / CONFIG_FILE, config.model_dump_json(indent=2), force=True)
        with whole_files(started.output) as part:
            assembled.tokenizer.save_pretrained(part)

    evaluate = partial(assembled.evaluate, together=processes())
    return started.train(
        assembled.model,
        assembled.data,
        config,
        write=write,
        evaluate=evaluate if config.training.evaluate_every else None,
    )


def _score(assembled: FinetuneRun, output: Path, precision: str) -> None:
    with report_dead_process():
        metrics, predictions = assembled.metrics(together=processes())
    metrics["precision"] = precision
    if rank_and_size().rank:
        return
    write_answers(output / ANSWERS, answers_of(assembled, predictions))
    write_json(output / METRICS_FILE, metrics, indent=2, force=True)
    if task_kind(assembled.model.question().problem_type).rows == "windows":
        for name, data in assembled.evaluation.items():
            rows = zip(data.examples, predictions[name], strict=True)
            answers = {example.linked.id: answer for example, (answer,) in rows}
            write_json(output / f"predictions-{name}.json", answers, force=True)
    for name in assembled.evaluation:
        echo(_line(name, metrics[name], assembled.config.knowledge))
        n_train = len(assembled.train)
        if weak := shortfall(name, metrics[name], assembled.config, n_train):
            echo(f"warning: {weak}")
    echo(f"scores in {output / METRICS_FILE}, answers in {output / ANSWERS}")


def _line(name: str, scores: dict[str, Any], knowledge: str) -> str:
    if "pearson" in scores:
        return _correlations(name, scores, knowledge)
    parts = []
    for label, part in (("accuracy", scores["accuracy"]), ("micro F1", scores["micro"])):
        interval = part if label == "accuracy" else part["f1_interval"]
        value = part["estimate"] if label == "accuracy" else part["f1"]
        parts.append(f"{label} {value:.4f}")
        if interval["low"] is not None:
            parts[-1] += f" [{interval['low']:.4f}, {interval['high']:.4f}]"
    base = scores["baseline"]
    return (
        f"{name}: {', '.join(parts)} over {scores['n_scored']} of {scores['n_asked']}; majority "
        f"{base['accuracy']['estimate']:.4f} / {base['micro']['f1']:.4f}; "
        f"{_knowledge(knowledge, scores['coverage'])}"
    )


def _correlations(name: str, scores: dict[str, Any], knowledge: str) -> str:
    """A regression has no majority; the mean of the training scores stands in its place."""
    parts = []
    for label in ("pearson", "spearman", "mean_squared_error"):
        parts.append(f"{label.replace('_', ' ')} {scores[label]['estimate']:.4f}")
        if scores[label]["low"] is not None:
            parts[-1] += f" [{scores[label]['low']:.4f}, {scores[label]['high']:.4f}]"
    base = scores["baseline"]["mean_squared_error"]["estimate"]
    return (
        f"{name}: {', '.join(parts)} over {scores['n_scored']} of {scores['n_asked']}; mean of "
        f"training: 0, 0, {base:.4f}; {_knowledge(knowledge, scores['coverage'])}"
    )


def _knowledge(knowledge: str, coverage: dict[str, Any]) -> str:
    share = coverage["shares"]["read"]
    if share is None:
        return f"knowledge {knowledge}: the model gets words alone here"
    return (
        f"knowledge {knowledge}, the model gets facts or entities of the graph in "
        f"{share:.1%} of the texts"
    )
