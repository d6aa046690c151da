"""One command's worth of word-knowledge completion: every method, every control, one table.

`compare` runs what is not done yet: each method leaves a file of its ranks in the run's folder, and
a training that was cut goes on from its checkpoint. Nothing is shown without n, interval and
baseline.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt

from kept.completion.batches import relation_result
from kept.completion.rankers import (
    Answers,
    Asked,
    CoLAKERun,
    dkrl,
    most_frequent,
    triple_scorer,
)
from kept.completion.split import CompletionSplit
from kept.controls.conditions import COMPARED, Knowledge
from kept.errors import CheckpointError
from kept.evaluation.leakage import (
    LeakCheck,
    answers_in_subjects,
    inverses_in_graph,
    pairs_in_graph,
    sentences_in_training,
    triples_in_graph,
)
from kept.evaluation.ranking import RankCounts, RankingResult
from kept.evaluation.statistics import (
    Interval,
    bootstrap_interval,
    paired_bootstrap_interval,
    sign_flip_test,
    verdict,
)
from kept.graphs.builder import BuilderConfig
from kept.randomness import generator
from kept.training.config import RunConfig, TrainConfig
from kept.training.log import Reporter
from kg_loaders.disk.writing import write_text

KNOWLEDGE_NAMES: dict[Knowledge, str] = {
    "true": "CoLAKE",
    "off": "CoLAKE, knowledge off",
    "shuffled": "CoLAKE, objects shuffled",
}


class CompletionConfig(RunConfig):
    """What a comparison runs. `recipes`: by triple scorer or "dkrl", fields that differ."""

    host: str = "minilm"
    seed: NonNegativeInt = 0
    n_valid: NonNegativeInt = 0
    n_transductive: PositiveInt
    n_inductive: PositiveInt
    max_sentences_per_fact: PositiveInt | None = None
    builder: dict[str, Any] = Field(default_factory=dict)
    masking: dict[str, Any] = Field(default_factory=dict)
    n_negatives: PositiveInt = 8
    training: TrainConfig
    scorers: tuple[str, ...] = ("transe", "distmult", "complex", "rotate")
    recipes: dict[str, dict[str, Any]] = Field(default_factory=dict)
    n_resamples: PositiveInt = 2000

    @property
    def colake(self) -> CoLAKERun:
        """The part that all CoLAKE runs share."""
        return CoLAKERun(
            host=self.host,
            builder=BuilderConfig(**self.builder),
            masking=self.masking,
            training=self.training,
            n_negatives=self.n_negatives,
        )


@dataclass(frozen=True)
class Row:
    """One line of the table: a method in a setting, with its interval, or why it has no score."""

    setting: str
    method: str
    metrics: Mapping[str, float] | None
    mrr: Interval | None
    skipped: str | None


@dataclass(frozen=True)
class Difference:
    """`ours` minus `theirs` in MRR on the same questions, with a paired test."""

    setting: str
    ours: str
    theirs: str
    mrr: Interval
    p: float

    @property
    def verdict(self) -> str:
        """In words, by the rule of `kept.evaluation.statistics.verdict`."""
        return verdict(self.mrr, self.p, ours=self.ours, theirs=self.theirs)


@dataclass(frozen=True)
class Comparison:
    """Everything a report needs; `seconds` by method, of the run that trained it."""

    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]
    audit: tuple[LeakCheck, ...]
    conditions: Mapping[str, Any]
    counts: Mapping[str, Any]


def compare(
    split: CompletionSplit,
    config: CompletionConfig,
    folder: Path,
    *,
    only: Sequence[str] | None = None,
    reporter: Reporter | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> Comparison | None:
    """Run or read every method, then compare. Raises `CheckpointError` for another run's folder.

    `only` names the methods to run (to share them among processes); then there is no comparison.
    """
    folder.mkdir(parents=True, exist_ok=True)
    asked = Asked.of(split)
    answers: dict[str, Answers] = {}
    data = data_fingerprint(split)
    for name, options, run in _methods(split, asked, config, folder, reporter):
        if only is not None and name not in only:
            continue
        path = folder / f"ranks-{_slug(name)}.json"
        key = _fingerprint(data, options)
        if path.is_file():
            stored = _read(path, key)
            announce(f"{name}: read from {path.name}")
            answers[name] = stored
            continue
        announce(f"{name}: running")
        answers[name] = run()
        _write(path, key, answers[name])
    return None if only is not None else summarise(split, asked, answers, config)


def _methods(
    split: CompletionSplit,
    asked: Asked,
    config: CompletionConfig,
    folder: Path,
    reporter: Reporter | None,
) -> Iterator[tuple[str, object, Callable[[], Answers]]]:
    """Name, the options that its ranks depend on, and how to make them."""
    yield "most frequent relation", None, partial(most_frequent, split, asked)
    for name in config.scorers:
        changes = config.recipes.get(name, {})
        scorer = partial(triple_scorer, name, split, asked, changes=changes, seed=config.seed)
        yield name, (changes, config.seed), scorer
    changes = config.recipes.get("dkrl", {})
    described = partial(dkrl, split, asked, host=config.host, changes=changes, seed=config.seed)
    yield "dkrl", (changes, config.seed, config.host), described
    options = config.model_dump(
        mode="json", include={"host", "builder", "masking", "n_negatives", "training"}
    )
    for knowledge in COMPARED:
        trained = partial(_colake, split, asked, config, folder, reporter, knowledge)
        yield knowledge, options, trained
    for asked_with in COMPARED[1:]:
        hidden = partial(_colake, split, asked, config, folder, reporter, "true", asked_with)
        yield f"{asked_with} at test", options, hidden


def _colake(
    split: CompletionSplit,
    asked: Asked,
    config: CompletionConfig,
    folder: Path,
    reporter: Reporter | None,
    knowledge: Knowledge,
    asked_with: Knowledge | None = None,
) -> Answers:
    """Train (or take up) the CoLAKE of `knowledge`; ask it with `asked_with`, else the same."""
    run, method = config.colake, KNOWLEDGE_NAMES[knowledge]
    model = run.train(split, knowledge, folder / f"colake-{knowledge}", reporter)
    if asked_with is not None:
        method = f"{KNOWLEDGE_NAMES[asked_with]} at test only"
    return run.ask(model, split, asked, knowledge=asked_with or knowledge, method=method)


def summarise(
    split: CompletionSplit,
    asked: Asked,
    answers: Mapping[str, Answers],
    config: CompletionConfig,
) -> Comparison:
    """Rows with bootstrap intervals over facts, paired differences to CoLAKE, and the audit."""
    parts = {name: _with_informed(found, split) for name, found in answers.items()}
    rows, differences = [], []
    ours = parts["true"]
    for setting in ours.results:
        for found in parts.values():
            rows.append(_row(setting, found, config))
            theirs = found.results.get(setting)
            if theirs is not None and found is not ours:
                left = ours.results[setting]
                differences.append(_difference(setting, left, found.method, theirs, config))
    return Comparison(
        rows=tuple(rows),
        differences=tuple(differences),
        audit=tuple(audit(split, asked)),
        conditions={name: result.conditions() for name, result in ours.results.items()},
        counts={
            "train examples": len(split.train),
            "train triples": split.train_graph.n_triples,
            "context triples": split.context_graph.n_triples,
            "entities": split.full_graph.n_entities,
            "relations": split.full_graph.n_relations,
            **{f"{name} facts": len(part) for name, part in split.tests.items()},
            **{
                f"{name} facts whose head brings no neighbour": _n_bare(split, triples)
                for name, triples in asked.triples.items()
            },
            **{f"left out: {why}": n for why, n in split.dropped.items()},
        },
    )


INFORMED = ", head with neighbours"


def _with_informed(found: Answers, split: CompletionSplit) -> Answers:
    """The answers, and beside each setting those about heads that bring a neighbour at all."""
    results, skipped = dict(found.results), dict(found.skipped)
    for setting, result in found.results.items():
        keep = np.diff(split.context_graph.out_offsets)[result.triples[:, 0]] > 0
        if 1 < keep.sum() < len(keep):
            counts = RankCounts(result.counts.n_greater[keep], result.counts.n_equal[keep])
            results[setting + INFORMED] = relation_result(
                result.triples[keep], counts, filter=result.filter, ties=result.ties
            )
    skipped |= {setting + INFORMED: why for setting, why in found.skipped.items()}
    return Answers(found.method, results, skipped)


def _n_bare(split: CompletionSplit, triples: NDArray[np.int64]) -> int:
    degrees = np.diff(split.context_graph.out_offsets)
    return int((degrees[triples[:, 0]] == 0).sum())


def audit(split: CompletionSplit, asked: Asked) -> Iterator[LeakCheck]:
    """No tested triple in a graph, none reversed, no tested sentence in training, and the rest."""
    tested = np.concatenate(list(asked.triples.values()))
    examples = [example for part in split.tests.values() for example in part]
    texts = [example.linked.text for example in examples]
    label = split.full_graph.label
    ids = split.full_graph.entities.id
    for name, graph in (("training", split.train_graph), ("context", split.context_graph)):
        found = triples_in_graph(tested, graph)
        yield dataclasses.replace(found, check=f"tested triple in the {name} graph")
    yield inverses_in_graph(tested, split.context_graph)
    yield pairs_in_graph(tested, split.context_graph)
    yield sentences_in_training(texts, (e.linked.text for e in split.train))
    yield answers_in_subjects((label(ids(e.head)), label(ids(e.tail))) for e in examples)


def _row(setting: str, found: Answers, config: CompletionConfig) -> Row:
    result = found.results.get(setting)
    if result is None:
        return Row(setting, found.method, None, None, found.skipped[setting])
    draws = generator(config.seed, "bootstrap", setting)
    interval = bootstrap_interval(1 / result.ranks, generator=draws, n_resamples=config.n_resamples)
    return Row(setting, found.method, result.metrics(), interval, None)


def _difference(
    setting: str,
    ours: RankingResult,
    name: str,
    theirs: RankingResult,
    config: CompletionConfig,
) -> Difference:
    left, right = 1 / ours.ranks, 1 / theirs.ranks
    draws = generator(config.seed, "paired", setting)
    interval = paired_bootstrap_interval(
        left, right, generator=draws, n_resamples=config.n_resamples
    )
    p = sign_flip_test(left, right, generator=generator(config.seed, "flips", setting))
    return Difference(setting, KNOWLEDGE_NAMES["true"], name, interval, p)


# ---- files -------------------------------------------------------------------
def _slug(name: str) -> str:
    return "-".join(name.replace(",", "").lower().split())


def data_fingerprint(split: CompletionSplit) -> str:
    """SHA-256 over the graphs and the examples that are trained on and asked."""
    state = hashlib.sha256()
    for graph in (split.train_graph, split.context_graph):
        state.update(graph.content_hash.encode())
    for part in (split.train, *split.tests.values()):
        for example in part:
            state.update(f"{example.linked.text}\0{example.head}\0{example.tail}\n".encode())
    return state.hexdigest()


def _fingerprint(data: str, options: object) -> str:
    return hashlib.sha256(f"{data}\n{json.dumps(options, sort_keys=True)}".encode()).hexdigest()


def _write(path: Path, key: str, answers: Answers) -> None:
    content = {
        "run": key,
        "method": answers.method,
        "skipped": dict(answers.skipped),
        "results": {
            setting: {
                "triples": result.triples.tolist(),
                "n_greater": result.counts.n_greater.tolist(),
                "n_equal": result.counts.n_equal.tolist(),
                "filter": result.filter,
                "ties": result.ties,
            }
            for setting, result in answers.results.items()
        },
    }
    write_text(path, json.dumps(content), force=True)


def _read(path: Path, key: str) -> Answers:
    content = json.loads(path.read_text(encoding="utf-8"))
    if content["run"] != key:
        raise CheckpointError(
            f"{path} belongs to another run (other data or configuration); "
            "choose another folder or remove it"
        )
    results = {
        setting: relation_result(
            np.array(part["triples"], np.int64),
            RankCounts(np.array(part["n_greater"]), np.array(part["n_equal"])),
            filter=part["filter"],
            ties=part["ties"],
        )
        for setting, part in content["results"].items()
    }
    return Answers(content["method"], results, content["skipped"])
