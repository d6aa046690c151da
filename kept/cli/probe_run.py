"""What `kept probe` does: questions from the graph, answers of the model, tables, files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from rich.console import Console
from rich.table import Table
from transformers.utils.logging import disable_progress_bar

from kept.errors import ConfigError
from kept.evaluation.leakage import (
    LeakCheck,
    answers_in_subjects,
    audit_table,
    inverses_in_graph,
    pairs_in_graph,
    triples_in_graph,
)
from kept.probing.candidates import whole_words
from kept.probing.engine import probe
from kept.probing.graph_items import GraphQuestions, graph_questions, read_templates, texts_of
from kept.probing.items import ClozeItem
from kept.probing.models import open_model
from kept.probing.results import RANKINGS, Mode, ProbeResult, RankingName, write_answers
from kept.probing.tables import (
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
from kg_loaders import KnowledgeGraph

MODES: dict[str, tuple[Mode, ...]] = {
    "weights": ("weights",), "graph": ("graph",), "both": ("weights", "graph"),
}  # fmt: skip
COLUMNS = ("", "P@1", "95 %", "P@10", "MRR", "ECE", "asked", "scored", "majority")
MEANING = {
    "restricted": "among words of one piece",
    "objects": "among all objects of the relation, by mean log-probability",
}


def run(
    model: str,
    kg: Path,
    *,
    relations: Sequence[str],
    templates: Path | None,
    mode: str,
    show_asked: bool,
    vocabulary: Path | None,
    max_items: int | None,
    one_by_one: bool,
    output: Path | None,
    seed: int,
    threads: int | None,
) -> None:
    """Ask, tell, write."""
    if mode not in MODES:
        raise ConfigError(f"mode {mode!r}: one of {', '.join(MODES)}")
    if show_asked and mode == "weights":
        raise ConfigError("--show-asked shows facts, which mode weights never does: --mode graph")
    if threads is not None:
        torch.set_num_threads(threads)
    disable_progress_bar()
    graph = KnowledgeGraph.open(kg)
    asked = graph_questions(
        graph,
        list(dict.fromkeys(relations)) or None,
        {} if templates is None else read_templates(templates),
        max_items=max_items,
        seed=seed,
    )
    console = Console(soft_wrap=True, highlight=False, markup=False)
    _tell_questions(console, asked)
    checks = audit(asked.items, graph)
    console.print(audit_table(checks) + "\n")
    scores: dict[str, Any] = {
        "seed": seed,
        "templates": texts_of(asked.templates),
        "default_templates": asked.by_default,
        "left_out": asked.left_out,
        "audit": [dataclasses.asdict(check) for check in checks],
    }
    for chosen in MODES[mode]:
        asking = open_model(model, chosen, graph, show_asked=show_asked and chosen == "graph")
        result = probe(
            asking,
            asked.items,
            vocabulary=whole_words(asking.tokenizer) if vocabulary is None else _words(vocabulary),
            objects=asked.objects,
            likelihood="one_by_one" if one_by_one else "at_once",
        )
        scores[chosen] = _tell(console, result, asked, graph, seed)
        if output is not None:
            output.mkdir(parents=True, exist_ok=True)
            write_answers(result, output / f"answers-{chosen}.jsonl")
    if output is not None:
        text = json.dumps(scores, indent=2, ensure_ascii=False)
        (output / "scores.json").write_text(text + "\n", encoding="utf-8")
        typer.echo(f"scores in {output / 'scores.json'}, answers beside them")


def audit(items: Sequence[ClozeItem], graph: KnowledgeGraph) -> list[LeakCheck]:
    """What could give the answers away, were every fact of the graph shown."""
    facts = list(dict.fromkeys(item.fact for item in items if item.fact is not None))
    rows = np.array([_ids(fact, graph) for fact in facts], np.int32).reshape(-1, 3)
    pairs = dict.fromkeys((item.subject, item.answer, item.group) for item in items)
    return [
        triples_in_graph(rows, graph),
        inverses_in_graph(rows, graph),
        pairs_in_graph(rows, graph),
        answers_in_subjects([(subject, answer) for subject, answer, _ in pairs]),
    ]


def _ids(fact: tuple[str, str, str], graph: KnowledgeGraph) -> list[int]:
    head, relation, tail = fact
    found = (graph.entities.find(head), graph.relations.find(relation), graph.entities.find(tail))
    return [row for row in found if row is not None]


def _words(path: Path) -> list[str]:
    words = [line.strip() for line in path.read_text(encoding="utf-8").split("\n")]
    words = [word for word in words if word]
    if not words:
        raise ConfigError(f"{path} holds no word; write one a line")
    return words


def _tell_questions(console: Console, asked: GraphQuestions) -> None:
    n_facts = len(frozenset(item.group for item in asked.items))
    console.print(
        f"{len(asked.items)} questions about {n_facts} of {asked.n_drawn_from} facts of "
        f"{len(asked.templates)} relations"
    )
    for reason, n in asked.left_out.items():
        console.print(f"left out: {n} ({reason})")
    for relation, texts in texts_of(asked.templates).items():
        note = " (default: the relation's label)" if relation in asked.by_default else ""
        console.print(f"{relation}: {' | '.join(texts)}{note}")
    console.print()


def _tell(
    console: Console, result: ProbeResult, asked: GraphQuestions, graph: KnowledgeGraph, seed: int
) -> dict[str, Any]:
    """Print the tables of one mode; the same as JSON."""
    told: dict[str, Any] = {"settings": result.settings()}
    baseline = majority(asked.items)
    n_shown = sum(answer.asked_shown for answer in result.answers)
    what = {"none": "no facts are read", "hidden": "facts between subject and answer are hidden"}
    shown = f"a fact between subject and answer is shown in {n_shown} of {len(result.answers)}"
    console.print(
        f"{result.model} ({result.method}), mode {result.mode}: "
        f"{what.get(result.asked_facts, shown)}"
    )
    told["n_asked_shown"] = n_shown
    for ranking in RANKINGS:
        console.print(f"\n{ranking}: {MEANING[ranking]}; {result.ties}")
        rows = _rows(result, ranking, asked.items, graph, baseline, seed)
        console.print(_table(rows))
        for reason, n in result.skipped(ranking).items():
            console.print(f"skipped {n}: {reason}")
        told[ranking] = {
            "skipped": result.skipped(ranking),
            "majority_from": baseline.source,
            "rows": [dataclasses.asdict(row) for row in rows],
        }
    for reason, n in result.left_out.items():
        console.print(f"no candidates, {reason}: {n}")
    console.print(f"majority: the most frequent object of a relation among the {baseline.source}\n")
    return told


def _rows(
    result: ProbeResult,
    ranking: RankingName,
    items: Sequence[ClozeItem],
    graph: KnowledgeGraph,
    baseline: Majority,
    seed: int,
) -> list[ProbeRow]:
    """Relations, their mean, all items, then the bins of the subject's degree."""
    draws = generator(seed, "probe intervals", ranking)
    degrees = subject_degrees(items, graph)
    bins = popularity_rows(result, ranking, degrees, generator=draws, baseline=baseline)
    return [
        *relation_rows(result, ranking, generator=draws, baseline=baseline),
        macro_row(result, ranking, generator=draws, baseline=baseline),
        total_row(result, ranking, generator=draws, baseline=baseline),
        *(dataclasses.replace(row, name=f"degree {row.name}") for row in bins),
    ]


def _table(rows: Sequence[ProbeRow]) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, name in enumerate(COLUMNS):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        between = "-" if (i := row.interval) is None else f"{i.low:.3f}-{i.high:.3f}"
        values = (row.p_at_10, row.reciprocal, row.calibration_error)
        table.add_row(
            row.name, _shown(row.p_at_1), between, *map(_shown, values),
            str(row.n_asked), str(row.n_scored), _shown(row.majority),
        )  # fmt: skip
    return table


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
