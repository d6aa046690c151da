"""What `kept predict RUN FILE` does: read, predict behind a progress bar, write or print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kept.apps.cli.console import TerminalConsole
from kept.apps.cli.link.inputs import count_lines
from kept.apps.cli.link.run import line_progress, tell_damage
from kept.apps.cli.terminal import CALL, echo
from kept.apps.cli.training.predict_options import PredictOptions
from kept.errors import ConfigError
from kept.lab.questions.bulk import BulkAnswers, answers_key
from kept.lab.questions.fitted import FittedAnswerer, answers_questions
from kept.results import Result
from kept.tasks.datasets.columns import columns_by_use
from kept.tasks.datasets.tables import table_rows
from kept.tasks.datasets.unlabelled import QUESTIONS, is_plain, read_unlabelled
from kept.training.finetuning.bulk import (
    Block,
    BulkPrediction,
    LinePredictor,
    json_line,
    output_key,
    write_predictions,
)
from kept.training.finetuning.predictor import Predictor, columns_of_fit
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.disk.writing import refuse_file

if TYPE_CHECKING:
    from entity_linking.names.rules.case import Case


def predict_file(options: PredictOptions) -> Result:
    """Predict for each line of a file; return the counts, and the rows that were printed."""
    path, output = Path(options.text), options.output
    inputs = (options.run, path, options.kg)
    if output is not None:
        refuse_file(output, force=options.resume or options.force, inputs=inputs)
    report = DamageReport(
        policy=DamagePolicy(options.damage), remedy="mend the line, or predict with --damage skip"
    )
    bulk, task, key = _open(options, report)
    lines = read_unlabelled(path, task, report, _columns(options))
    n_expected = count_lines(path, "text")

    def with_progress(blocks: Iterator[Block], n_done: int) -> Iterator[Block]:
        with line_progress(TerminalConsole(stderr=True)) as progress:
            task = progress.add_task("predicting", total=n_expected, completed=n_done)
            for block in blocks:
                yield block
                progress.update(task, advance=len(block))

    rows: list[dict[str, Any]] = []
    n_lines = 0
    if output is None:
        for row in (row for block in with_progress(bulk.blocks(lines), 0) for row in block):
            n_lines += 1
            if CALL.get():  # called from Python, which gets the rows
                rows.append(row)
            else:
                echo(json_line(row)[:-1].decode())
    else:
        n_lines = write_predictions(
            bulk, lines, output, key=key, resume=options.resume,
            force=options.force, inputs=inputs, progress=with_progress,
        )  # fmt: skip
        echo(f"{counted(n_lines, 'predictions')} in {output}")
    bulk.report_cuts()
    tell_damage(report)
    counts = {"n_predictions": n_lines, "n_rejected": report.n_rejected}
    return Result(values=counts, rows=rows, folder=None if output is None else output.parent)


def _columns(options: PredictOptions) -> dict[str, str]:
    """The columns by use: those of the options, then those that `kept fit` was given.

    A column of `kept fit` that the file lacks is looked for by the usual names.
    """
    path = Path(options.text)
    if is_plain(path):
        return columns_by_use(options.column)
    known = columns_of_fit(options.run)
    first = next(table_rows(path, DamageReport(DamagePolicy.SKIP)), None) if known else None
    names = first[2] if first else ()
    remembered = {use: name for use, name in known.items() if name in names}
    return remembered | columns_by_use(options.column)


def _open(options: PredictOptions, report: DamageReport) -> tuple[LinePredictor, str, str]:
    """What predicts the lines, the task of the run, and what the predictions depend on."""
    run, case = options.run, options.case
    if answers_questions(run):
        if case is not None:
            raise ConfigError(f"--case is for texts with classes; {run} answers questions")
        answerer = FittedAnswerer.open(run, options.kg)
        return BulkAnswers(answerer), QUESTIONS, answers_key(run, answerer)
    predictor = Predictor.from_pretrained(run, case=cast("Case | None", case))
    graph = KnowledgeGraph.open(options.kg)
    predictor.model.encoder.require_graph(graph)
    bulk = BulkPrediction(predictor, graph, predictor.linker(graph), options.text, report)
    return bulk, predictor.task, output_key(run, predictor, graph)
