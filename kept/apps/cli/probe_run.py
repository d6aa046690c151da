"""What `kept probe` does: questions from the graph, answers of the model, tables, files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from kept.apps.cli.console import TerminalConsole
from kept.apps.cli.probe_options import ProbeOptions
from kept.apps.cli.terminal import echo
from kept.errors import ConfigError
from kept.evaluation.leakage import (
    LeakCheck,
    answers_in_subjects,
    audit_table,
    inverses_in_graph,
    pairs_in_graph,
    triples_in_graph,
)
from kept.graphs.cuts import Cut
from kept.lab.probing.candidates import whole_words
from kept.lab.probing.edits import FactEdit, draw_edits, edit_table, probe_edits, summarise
from kept.lab.probing.engine import probe
from kept.lab.probing.items.collections import Draw, collection_questions
from kept.lab.probing.items.facts import QuestionSet
from kept.lab.probing.items.graph_items import graph_questions
from kept.lab.probing.items.item import ClozeItem
from kept.lab.probing.items.templates import read_templates
from kept.lab.probing.opening import open_model
from kept.lab.probing.results import (
    RANKINGS,
    Mode,
    ProbeResult,
    RankingName,
    write_answers,
)
from kept.lab.probing.tables import (
    ALL,
    Majority,
    ProbeRow,
    macro_row,
    majority,
    popularity_rows,
    relation_rows,
    subject_degrees,
    total_row,
)
from kept.randomness import generator
from kept.results import Result
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted
from kg_loaders.damage import DamageReport
from kg_loaders.disk.writing import refuse_file, write_json
from kg_loaders.reading.lines import read_lines

MODES: dict[str, tuple[Mode, ...]] = {
    "weights": ("weights",), "graph": ("graph",), "both": ("weights", "graph"),
}  # fmt: skip
SCORES, ANSWERS = "scores.json", "answers-{}.jsonl"
COLUMNS = ("", "P@1", "95 %", "P@10", "MRR", "ECE", "asked", "scored", "majority")
MEANING = {
    "restricted": "among words of one piece",
    "objects": "among all objects of the relation, by mean log-probability",
}
BY_TRUTH = "among all objects of the relation, by how true the model judges the sentence with each"

EDITS = (
    "no fact is hidden, and shown counts the questions where the fact that is true after the edit "
    "was among those read"
)


def run(options: ProbeOptions) -> Result:
    """Ask, print and return the scores, write the files."""
    likelihood, output = options.likelihood, options.output
    _require_mode(options)
    if output is not None:
        for name in (SCORES, *map(ANSWERS.format, MODES[options.mode])):
            refuse_file(output / name, force=options.force)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    graph = None if options.kg is None else KnowledgeGraph.open(options.kg)
    questions = _questions(graph, options)
    if graph is not None and options.mode != "weights":
        _require_known(questions, graph)
    console = TerminalConsole(soft_wrap=True)
    edits = _draw_edits(questions, graph, options)
    words = None if options.vocabulary is None else _words(options.vocabulary)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    scores: dict[str, Any] = {"seed": options.seed, "collection": options.collection}
    scores |= _print_questions(console, questions, graph)
    for mode in MODES[options.mode]:
        shows_answers = options.show_asked and mode == "graph"
        model = open_model(options.model, mode, graph, show_asked=shows_answers)
        result = probe(
            model,
            questions.items,
            vocabulary=words or whole_words(model.tokenizer),
            objects=questions.objects,
            likelihood=likelihood,
            first_word=options.first_word,
        )
        scores[mode] = _print_result(console, result, questions, graph, options.seed)
        if output is not None:
            write_answers(result, output / ANSWERS.format(mode), force=options.force)
    if edits and graph is not None:
        console.print(f"{len(edits)} of {options.edits} edits, each alone; {EDITS}\n")
        scores["edits"] = _print_edits(console, graph, questions, edits, options)
    if output is not None:
        write_json(output / SCORES, scores, indent=2, force=options.force)
        echo(f"scores in {output / SCORES}, answers in the same folder")
    return Result(values=scores, folder=output)


def _require_mode(options: ProbeOptions) -> None:
    mode = options.mode
    if mode not in MODES:
        raise ConfigError(f"mode {mode!r}: one of {', '.join(MODES)}")
    if options.show_asked and mode == "weights":
        raise ConfigError(
            "--show-asked gives the model facts, which --mode weights never does; use --mode graph"
        )
    if options.edits and mode == "weights":
        raise ConfigError("--edits changes the graph, which mode weights never reads: --mode graph")


def _questions(graph: KnowledgeGraph | None, options: ProbeOptions) -> QuestionSet:
    """A collection's, else the graph's own triples."""
    collection, data, templates = options.collection, options.data, options.templates
    relations, seed = options.relation_names, options.seed
    if bool(collection) != (data is not None):
        raise ConfigError("--collection NAME and --data FOLDER belong together: give both")
    if data is not None:
        if templates is not None:
            raise ConfigError("--templates put a graph's triples into words; a collection has its")
        return collection_questions(collection, data, Draw(options.max_items, seed, relations))
    if graph is None:
        raise ConfigError("nothing to ask: give --kg FOLDER, or --collection NAME --data FOLDER")
    return graph_questions(
        graph,
        list(relations) or None,
        {} if templates is None else read_templates(templates, DamageReport()),
        max_items=options.max_items,
        seed=seed,
    )


def _require_known(questions: QuestionSet, graph: KnowledgeGraph) -> None:
    if not any(_ids(item.fact, graph) for item in questions.items):
        raise ConfigError(
            "--mode graph needs questions about facts of the graph, but it has head, "
            "relation and tail of none; give a graph with the same identifiers, or use mode weights"
        )


def _draw_edits(
    questions: QuestionSet, graph: KnowledgeGraph | None, options: ProbeOptions
) -> list[FactEdit]:
    """Draw edits before a model is opened, so that a graph without any is refused at once."""
    if not options.edits or graph is None:
        return []
    edits = draw_edits(questions.items, graph, options.edits, seed=options.seed)
    if not edits:
        raise ConfigError(
            "no fact can be changed to another object of its relation; choose relations with "
            "several objects, or leave out --edits"
        )
    return edits


def _print_edits(
    console: TerminalConsole,
    graph: KnowledgeGraph,
    questions: QuestionSet,
    edits: Sequence[FactEdit],
    options: ProbeOptions,
) -> list[dict[str, Any]]:
    """Change facts one at a time, probe again, print what changed; return the rows for JSON."""

    def probe_changed(changed: KnowledgeGraph, items: Sequence[ClozeItem]) -> ProbeResult:
        return probe(
            open_model(options.model, "graph", changed, show_asked=True),
            items,
            vocabulary=None,
            objects=questions.objects,
            likelihood=options.likelihood,
        )

    effects = probe_edits(graph, edits, questions.items, probe_changed, seed=options.seed)
    rows = summarise(effects, seed=options.seed)
    console.print(edit_table(rows))
    return [dataclasses.asdict(row) for row in rows]


def audit(items: Sequence[ClozeItem], graph: KnowledgeGraph | None) -> list[LeakCheck]:
    """Leaks of the answers, were every fact of the graph shown."""
    pairs = dict.fromkeys((item.subject, item.answer, item.group) for item in items)
    checks = [answers_in_subjects([(subject, answer) for subject, answer, _ in pairs])]
    if graph is None:
        return checks
    ids = [_ids(fact, graph) for fact in dict.fromkeys(item.fact for item in items)]
    rows = np.array([row for row in ids if row], np.int32).reshape(-1, 3)
    in_graph = (triples_in_graph, inverses_in_graph, pairs_in_graph)
    return [*(check(rows, graph) for check in in_graph), *checks]


def _ids(fact: tuple[str, str, str] | None, graph: KnowledgeGraph) -> list[int]:
    """The fact as ids; empty where the graph does not know all of it."""
    head, relation, tail = fact or ("", "", "")
    ids = (graph.entities.find(head), graph.relations.find(relation), graph.entities.find(tail))
    return [] if None in ids else [row for row in ids if row is not None]


def _words(path: Path) -> list[str]:
    words = [raw.decode().strip() for _, _, raw in read_lines(path, DamageReport())]
    words = [word for word in words if word]
    if not words:
        raise ConfigError(f"{path} has no word; write one per line")
    return words


def _print_questions(
    console: TerminalConsole, questions: QuestionSet, graph: KnowledgeGraph | None
) -> dict[str, Any]:
    """Print the questions and their leaks; return the same for JSON."""
    n_facts = len(frozenset(item.group or item.id for item in questions.items))
    console.print(
        f"{counted(len(questions.items), 'questions')} about {n_facts} of "
        f"{counted(questions.n_drawn_from, 'facts')} of "
        f"{counted(len(frozenset(item.relation for item in questions.items)), 'relations')}"
    )
    if graph is not None:
        known = [item for item in questions.items if _ids(item.fact, graph)]
        console.print(f"the graph knows head, relation and tail of {len(known)} of them")
    for reason, n in questions.left_out.items():
        console.print(f"left out: {n} ({reason})")
    for relation, texts in questions.texts.items():
        note = " (default: the relation's label)" if relation in questions.by_default else ""
        console.print(f"{relation}: {' | '.join(texts)}{note}")
    checks = audit(questions.items, graph)
    console.print("\n" + audit_table(checks) + "\n")
    return {
        "templates": questions.texts,
        "default_templates": questions.by_default,
        "left_out": questions.left_out,
        "audit": [dataclasses.asdict(check) for check in checks],
    }


def _print_result(
    console: TerminalConsole,
    result: ProbeResult,
    questions: QuestionSet,
    graph: KnowledgeGraph | None,
    seed: int,
) -> dict[str, Any]:
    """Print the tables of one mode; return the same for JSON."""
    printed: dict[str, Any] = {"settings": result.settings()}
    baseline = majority(questions.items)
    n_shown = sum(answer.asked_shown for answer in result.answers)
    what = {"none": "no facts are shown", "hidden": "facts between subject and answer are hidden"}
    share_shown = (
        f"the model gets a fact between subject and answer in {n_shown} of {len(result.answers)}"
    )
    console.print(
        f"{result.model} ({result.method}), mode {result.mode}: "
        f"{what.get(result.asked_facts, share_shown)}"
    )
    printed["n_asked_shown"] = n_shown
    if result.cut is not None and result.cut["n_cut"]:
        console.print(
            f"{Cut(**result.cut)}; the part around the hole was read, so give shorter texts where "
            "all of a text matters"
        )
    for ranking in RANKINGS:
        by_truth = ranking == "objects" and result.likelihood == "truth"
        meaning = BY_TRUTH if by_truth else MEANING[ranking]
        console.print(f"\n{ranking}: {meaning}; {result.ties}")
        rows = _rows(result, ranking, questions.items, graph, baseline, seed)
        console.print(_table(rows))
        for reason, n in result.skipped(ranking).items():
            console.print(f"skipped {n}: {reason}")
        printed[ranking] = {
            "skipped": result.skipped(ranking),
            "majority_from": baseline.source,
            "rows": [dataclasses.asdict(row) for row in rows],
        }
        if ranking == RANKINGS[-1] and (
            weak := shortfall(rows, result.mode, shows_answers=result.asked_facts == "shown")
        ):
            console.print(f"warning: {weak}")
            printed["warning"] = weak
    for reason, n in result.left_out.items():
        console.print(f"no candidates, {reason}: {n}")
    console.print(
        f"majority: the most frequent object of a relation among the {baseline.source}, other "
        "right answers left out\n"
    )
    return printed


def _rows(
    result: ProbeResult,
    ranking: RankingName,
    items: Sequence[ClozeItem],
    graph: KnowledgeGraph | None,
    baseline: Majority,
    seed: int,
) -> list[ProbeRow]:
    """Relations, their mean, all items, then the bins of the subject's degree."""
    draws = generator(seed, "probe intervals", ranking)
    rows = [
        *relation_rows(result, ranking, generator=draws, baseline=baseline),
        macro_row(result, ranking, generator=draws, baseline=baseline),
        total_row(result, ranking, generator=draws, baseline=baseline),
    ]
    if graph is None:
        return rows
    degrees = subject_degrees(items, graph)
    bins = popularity_rows(result, ranking, degrees, generator=draws, baseline=baseline)
    return [*rows, *(dataclasses.replace(row, name=f"degree {row.name}") for row in bins)]


def shortfall(rows: Sequence[ProbeRow], mode: str, *, shows_answers: bool = False) -> str | None:
    """Return a warning where all items together are answered no better than by the majority.

    `shows_answers`: the model gets the facts that are the answers too (--show-asked).
    """
    (whole,) = (row for row in rows if row.name == ALL)
    if whole.p_at_1 is None or whole.majority is None or whole.p_at_1 > whole.majority:
        return None
    remedy = "use a method that was pre-trained to read facts (kept pretrain), with more steps"
    if mode == "weights":
        remedy = (
            "put the relations into words that the model has met (--templates FILE), or show facts "
            "(--mode graph)"
        )
    elif not shows_answers:
        remedy = f"also give the model the facts that are the answers (--show-asked), or {remedy}"
    return (
        f"P@1 {whole.p_at_1:.3f} is no better than always the relation's most frequent object "
        f"({whole.majority:.3f}), so it shows no knowledge of single facts: {remedy}"
    )


def _table(rows: Sequence[ProbeRow]) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, name in enumerate(COLUMNS):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        between = "-" if (i := row.interval) is None else f"{i.low:.3f}-{i.high:.3f}"
        values = (row.p_at_10, row.reciprocal, row.calibration_error)
        table.add_row(
            row.name, _number(row.p_at_1), between, *map(_number, values),
            str(row.n_asked), str(row.n_scored), _number(row.majority),
        )  # fmt: skip
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
