"""A comparison of word-knowledge completion: every method and control, in every setting.

Runs, verdicts and tables are those of `kept.lab.study`; ranks and the leak audit are its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kept.errors import CheckpointError
from kept.evaluation.leakage import (
    LeakCheck,
    answers_in_subjects,
    inverses_in_graph,
    pairs_in_graph,
    sentences_in_training,
    triples_in_graph,
)
from kept.kgc.rankers import Questions
from kept.kgc.split import CompletionSplit
from kept.lab.completion.config import CompletionConfig
from kept.lab.completion.trial import SKIPPED, CompletionTrial
from kept.lab.study.effects import summarise
from kept.lab.study.run import Study, run_all
from kept.lab.study.verdicts import Compared
from kept.training.log import Reporter


@dataclass(frozen=True)
class Completion:
    """Everything a report needs: a comparison for each setting, the audit, and counts."""

    settings: tuple[Compared, ...]
    audit: tuple[LeakCheck, ...]
    counts: Mapping[str, Any]


def compare(
    split: CompletionSplit,
    config: CompletionConfig,
    folder: Path,
    *,
    reporter: Reporter | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> Completion:
    """Run what is missing, then compare; an interrupted training resumes from its checkpoint.

    Several processes may share a folder. CheckpointError: it holds ranks of kept 0.1.
    """
    refuse_old(folder)
    folder.mkdir(parents=True, exist_ok=True)
    trial = CompletionTrial(config, split, folder, reporter)
    outcome = run_all(Study(trial), trial.keys, announce=announce)
    settings = []
    for name in split.tests:
        part = dataclasses.replace(trial, config=config.model_copy(update={"asked": name}))
        done = {key: run for key, run in outcome.done.items() if SKIPPED not in run.scores[name]}
        why = {
            config.title(key.method): run.scores[name][SKIPPED]
            for key, run in outcome.done.items()
            if key not in done
        }
        settings.append(summarise(Study(part), dataclasses.replace(outcome, done=done), why))
    counts = {
        "train examples": len(split.train),
        "train triples": split.train_graph.n_triples,
        "context triples": split.context_graph.n_triples,
        "entities": split.full_graph.n_entities,
        "relations": split.full_graph.n_relations,
        **{f"{name} facts": len(part) for name, part in split.tests.items()},
        **{f"left out: {why}": n for why, n in split.dropped.items()},
    }
    return Completion(tuple(settings), tuple(audit(split, trial.questions)), counts)


def refuse_old(folder: Path) -> None:
    """Raise CheckpointError for a folder with ranks of kept 0.1."""
    if old := sorted(folder.glob("ranks-*.json")):
        raise CheckpointError(
            f"{old[0]} is of kept 0.1, which stored ranks in another way; remove ranks-*.json and "
            f"colake-* from {folder}, or give another folder, and run the command again"
        )


def audit(split: CompletionSplit, questions: Questions) -> Iterator[LeakCheck]:
    """No tested triple in a graph, none reversed, no tested sentence in training, and the rest."""
    tested = np.concatenate(list(questions.triples.values()))
    examples = [example for part in split.tests.values() for example in part]
    texts = [example.linked.text for example in examples]
    label = split.full_graph.label
    ids = split.full_graph.entities.id
    for name, graph in (("training", split.train_graph), ("context", split.context_graph)):
        check = triples_in_graph(tested, graph)
        yield dataclasses.replace(check, check=f"tested triple in the {name} graph")
    yield inverses_in_graph(tested, split.context_graph)
    yield pairs_in_graph(tested, split.context_graph)
    yield sentences_in_training(texts, (e.linked.text for e in split.train))
    yield answers_in_subjects((label(ids(e.head)), label(ids(e.tail))) for e in examples)
