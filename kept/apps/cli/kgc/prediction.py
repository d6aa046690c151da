"""`kept kgc predict`: the best answers to a question, how sure they are, and what made them."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Column, Table

from kept.apps.cli.console import TerminalConsole
from kept.apps.cli.kgc.opening import Opened, open_over, scorer_folder
from kept.apps.cli.terminal import echo
from kept.errors import ConfigError
from kept.evaluation.ranking import SLOTS
from kept.kgc.completers.base import Reason
from kept.kgc.completers.new_entity import missing_entity, with_entity
from kept.kge.calibration import Calibration
from kept.kge.prediction import (
    UNKNOWN,
    Answer,
    Answers,
    Question,
    best_answers,
    by_identifiers,
)
from kept.kge.splits import Seen
from kept.kge.trained import read_seen
from kept.packaged import READY

if TYPE_CHECKING:
    from kept.apps.cli.kgc import PredictOptions

N_REASONS = 6


def predict(options: PredictOptions) -> Answers:
    """Print and return the best answers for "?"; see `kept.kge.prediction.best_answers`.

    Ready weights read all triples of the graph, as none of them were held out in a training.
    """
    question: Question = (options.head, options.relation, options.tail)
    is_ready = str(options.model).startswith(READY)
    model = scorer_folder(options.model)
    opened = open_over(options.kg, model, is_whole=is_ready)
    is_new = options.text is not None or options.facts is not None
    question = by_identifiers(opened.splits.graph, question, allow_new=is_new)
    if options.text is not None or options.facts is not None:
        opened = _with_newcomer(opened, question, options)
    stored = opened.described["training"].get("calibration")
    calibration = None if stored is None else Calibration.from_json(stored)
    answers = best_answers(
        opened.scorer, opened.splits, _seen(opened, model, question), question, n=options.top,
        untrained=options.untrained or opened.completer is not None, calibration=calibration,
    )  # fmt: skip
    first = next((one for one in answers.best if not one.known), None)
    reasons = _reasons(opened, question, first) if options.explain else None
    if options.as_json:
        _print_json(answers, reasons)
        return answers
    if is_ready:
        graphs = ", ".join(opened.described["training"].get("graphs", ()))
        echo(
            f"by ready weights in {model}, trained on {graphs}, not on this graph: expect less "
            "than of a scorer that was (kept kgc train)"
        )
    _print_answers(answers, opened)
    if calibration is not None and question[1] != UNKNOWN:
        _tell_confidence(first, calibration, options.refuse_below)
    if reasons is not None and first is not None:
        _print_reasons(reasons, first)
    return answers


def _seen(opened: Opened, model: Path, question: Question) -> Seen:
    """Of a completer what it was trained on; it answers for any entity that is asked about."""
    seen = opened.seen
    if opened.completer is None or seen is None:
        return read_seen(model, opened.splits)
    graph = opened.splits.graph
    for name in (question[0], question[2]):
        if name in graph.entities:
            seen.entities[graph.entities.id(name)] = True
    return seen


def _with_newcomer(opened: Opened, question: Question, options: PredictOptions) -> Opened:
    """The same over a graph with the question's own entity in it."""
    name = opened.described["scorer"]
    if opened.completer is None:
        raise ConfigError(
            f"{name} has vectors for the entities of its training only; train ultra or "
            f"nbfnet (then give --facts), or simkgc, dkrl, kepler or colake (then give --text)"
        )
    node, flag = (
        (options.facts, "--facts") if opened.completer.reads == "triples"
        else (options.text, "--text")
    )  # fmt: skip
    if node is None:
        raise ConfigError(f"{name} reads {opened.completer.reads}: give {flag}")
    entity = missing_entity(opened.splits.graph, question)
    splits = with_entity(opened.splits, entity, text=options.text, facts=options.facts)
    scorer = opened.completer.on(splits.graph, splits.train)
    return replace(opened, splits=splits, scorer=scorer)


def _reasons(opened: Opened, question: Question, answer: Answer | None) -> list[Reason]:
    """What made the best new answer; ConfigError: the scorer reads nothing."""
    if opened.completer is None:
        raise ConfigError(
            f"{opened.described['scorer']} compares vectors and reads no facts or texts, so "
            f"there is nothing to explain; --explain is for scorers that read"
        )
    if answer is None or question[1] == UNKNOWN:
        return []
    graph = opened.splits.graph
    direction = next(name for name, slot in SLOTS.items() if question[slot] == UNKNOWN)
    head, relation, tail = (answer.id if name == UNKNOWN else name for name in question)
    triple = (graph.entities.id(head), graph.relations.id(relation), graph.entities.id(tail))
    return opened.completer.reasons(graph, opened.splits.train, direction, triple)[:N_REASONS]


def _print_json(answers: Answers, reasons: list[Reason] | None) -> None:
    rows: Any = [asdict(answer) for answer in answers.best]
    if reasons is not None:
        rows = {"answers": rows, "reasons": [asdict(reason) for reason in reasons]}
    echo(json.dumps(rows, indent=2, ensure_ascii=False))


def _print_answers(answers: Answers, opened: Opened) -> None:
    table = Table("rank", Column("id", no_wrap=True), "label", "score",
                  "confidence", "known", "trained")  # fmt: skip
    for rank, answer in enumerate(answers.best, 1):
        sure = "" if answer.confidence is None else f"{answer.confidence:.3f}"
        table.add_row(
            str(rank), answer.id, answer.label, f"{answer.score:.3f}", sure,
            "yes" if answer.known else "", "" if answer.trained else "no",
        )  # fmt: skip
    TerminalConsole().print_whole(table)
    if answers.left_out is not None:
        echo(f"{answers.left_out} itself is left out: no known triple of the relation is a loop")
    if answers.n_untrained:
        echo(f"{answers.n_untrained} left out: training never saw them; --untrained lets them in")
    if opened.completer is None and not all(answer.trained for answer in answers.best):
        echo('"trained" no: this entity or relation was not in training; the score means nothing')


def _tell_confidence(best: Answer | None, calibration: Calibration, limit: float) -> None:
    """Whether the best new answer is sure enough, and what that was worth on validation."""
    kept = calibration.kept_at(limit)
    share = f"{kept.n_right} of {kept.n_answered} right" if kept.n_answered else "none answered"
    what = f"of {calibration.n_questions} validation questions at {kept.threshold}: {share}"
    if best is None or best.confidence is None:
        echo("no new answer among these")
    elif best.confidence < limit:
        echo(
            f"refused: the best new answer, {best.label}, has a confidence of "
            f"{best.confidence:.2f}, below --refuse-below {limit} ({what})"
        )
    else:
        echo(f"answer: {best.label}, confidence {best.confidence:.2f} ({what})")
    echo("confidence: of being the missing answer, given that one is missing")


def _print_reasons(reasons: list[Reason], best: Answer) -> None:
    echo(f"behind {best.label}: how much lower its score is without")
    for reason in reasons:
        echo(f"  {reason.change:+.3f}  {reason.source}: {reason.what}")
