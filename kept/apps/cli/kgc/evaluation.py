"""`kept kgc eval`: filtered ranks and those of baselines, among all entities and sampled ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from kept.apps.cli.console import TerminalConsole
from kept.apps.cli.kgc.opening import (
    Opened,
    directions_of,
    filter_of,
    open_over,
    scorer_folder,
    ties_of,
    warn_about_leaks,
)
from kept.apps.cli.kgc.options import EvalOptions
from kept.apps.cli.terminal import echo
from kept.errors import ConfigError, EvaluationError
from kept.evaluation.ranking import Filter, HasScores, RankingResult, Ties
from kept.evaluation.sampled_ranking import SampledRanking, rank_among_sampled
from kept.evaluation.triple_classification import (
    TripleClassification,
    classify_triples,
    mean_of_directions,
)
from kept.kgc.shared_ranking import RememberedBlocks, rank_together
from kept.kge.inductive import DegreeScorer, PageRankScorer
from kept.kge.memory import keep_freed_memory
from kept.kge.splits import SPLITS, STRATA, Splits, read_negatives
from kept.kge.trained import check_splits
from kept.randomness import generator
from kept.training.processes.together import (
    Processes,
    join_processes,
    leave_processes,
    report_dead_process,
)
from kg_loaders.counting import counted

N_CANDIDATES, N_DRAWS = 50, 10


def evaluate(options: EvalOptions) -> None:
    """Print filtered ranks of a split and everything they depend on.

    Triples with an entity or relation that training never saw are scored apart, unless `pooled` or
    the scorer is a completer. With a folder of `negatives`, triples of test are classified too, by
    thresholds fitted on valid.
    """
    keep_freed_memory()
    together = join_processes("cpu")  # they tell one another ranks, wherever these are computed
    try:
        with report_dead_process("Give the same command again"):
            _evaluate(options, together)
    finally:
        leave_processes()


def _evaluate(options: EvalOptions, together: Processes) -> None:
    source, model = options.source, scorer_folder(options.model)
    opened = open_over(source, model)
    rows = _rows(opened, model, options)
    pooled = options.pooled or opened.completer is not None
    ties, directions = ties_of(options.ties), directions_of(options.directions.split(","))
    known = filter_of(opened.splits)
    scorer = RememberedBlocks(opened.scorer, rows, filter=known, directions=directions)
    result = rank_together(
        scorer, rows, filter=known, ties=ties, directions=directions, together=together
    )
    strata = _strata(opened, result, rows)
    headline = result
    if not pooled:
        headline = result.where(opened.splits.seen.strata(result.triples) == STRATA[0])
    if not headline.n_scored:
        raise EvaluationError(
            f"none of the {len(rows)} triples of {options.split} has only entities and "
            f"relations that were in training; --pooled scores all triples together"
        )
    baselines = {}
    if options.baselines:
        baselines = _baselines(
            scorer, opened.splits, headline, known=known, ties=ties, together=together
        )
    classification = _classification(opened, scorer, source if options.classify else
                                     options.negatives, together)  # fmt: skip
    if options.as_json:
        weak = shortfalls(baselines, classification, opened, source)
        _print_json(opened, headline, strata, baselines, classification, options, rows, weak)
        return
    _show(headline, f"{model.name} on {source.name}, {options.split}")
    _show_baselines(baselines, headline, model.name)
    for line in shortfalls(baselines, classification, opened, source):
        echo(f"warning: {line}")
    _show_strata(strata, len(rows), opened, pooled=options.pooled)
    warn_about_leaks(opened.splits)
    if opened.completer is not None:
        _tell_trained_on(opened, rows, options.split)
    if classification is not None:
        echo(f"triple classification of test: {classification}")
    elif opened.has_negatives(source):
        echo("SOURCE has negatives: --classify also scores triple classification")


def _rows(opened: Opened, model: Path, options: EvalOptions) -> NDArray[np.int32]:
    """The asked triples; refuses those that the scorer has before its eyes."""
    if opened.completer is None or opened.has_tables:
        check_splits(model, opened.splits)
    if options.split not in SPLITS:
        raise ConfigError(f"split {options.split!r} is unknown; take one of {', '.join(SPLITS)}")
    reads_triples = opened.completer is not None and opened.completer.reads == "triples"
    if reads_triples and options.split == SPLITS[0]:
        raise ConfigError(
            f"{opened.described['scorer']} reads the training triples when it predicts, so "
            f"it would find each answer there; use --split valid or test"
        )
    if options.repeats:
        return opened.splits.as_mapping()[options.split]
    rows = opened.splits.distinct(options.split)
    n_repeats = opened.splits.repeats().get(options.split, 0)
    if n_repeats and not options.as_json:
        echo(
            f"{counted(n_repeats, 'triples')} of {options.split} repeated an earlier one and "
            "were ranked once (--repeats ranks each as often as it occurs)"
        )
    return rows


@dataclass(frozen=True, eq=False)
class EntityRanks:
    """Ranks of the same questions among all entities, and among a few."""

    all: RankingResult
    sampled: SampledRanking

    def as_json(self) -> dict[str, Any]:
        return {
            "metrics": self.all.metrics(),
            "sampled": {**self.sampled.metrics(), **self.sampled.conditions()},
        }


def _baselines(
    scorer: HasScores,
    splits: Splits,
    headline: RankingResult,
    *,
    known: Filter,
    ties: Ties,
    together: Processes,
) -> dict[str, EntityRanks]:
    """The scorer ("model") and both baselines, on the headline's questions for entities."""
    graph = splits.graph
    directions = tuple(name for name in headline.directions if name != "relation")
    if not directions:
        return {}
    context: Any = splits.train
    scorers: dict[str, HasScores] = {
        "model": scorer,
        "degree": DegreeScorer(context, n_entities=graph.n_entities, n_relations=graph.n_relations),
        "PageRank": PageRankScorer(context, n_entities=graph.n_entities),
    }
    rows = headline.of(directions[0]).triples
    ranks = {}
    for name, one in scorers.items():
        if name != "model":
            one = RememberedBlocks(one, rows, filter=known, directions=directions)
        whole = rank_together(
            one, rows, filter=known, ties=ties, directions=directions, together=together
        )
        few = rank_among_sampled(
            one, rows, filter=known, ties=ties, directions=directions,
            n_candidates=min(N_CANDIDATES, graph.n_entities), n_draws=N_DRAWS, seed=0,
            together=together,
        )  # fmt: skip
        ranks[name] = EntityRanks(whole, few)
    return ranks


def _show_baselines(
    baselines: Mapping[str, EntityRanks], headline: RankingResult, model: str
) -> None:
    if not baselines:
        return
    table = Table("compared with baselines", "MRR", "Hits@10", "MRR of 50", "Hits@1 of 50",
                  "Hits@10 of 50")  # fmt: skip
    for name, one in baselines.items():
        few = one.sampled.metrics()
        numbers = (one.all.mrr, one.all.hits(10), few["mrr"], few["hits@1"], few["hits@10"])
        table.add_row(model if name == "model" else name, *(f"{value:.4f}" for value in numbers))
    TerminalConsole().print(table)
    conditions = baselines["model"].sampled
    echo(
        f"of {conditions.n_candidates}: the answer among itself and sampled entities that are no "
        f"answer, {N_DRAWS} draws (GraIL's protocol, lenient); degree: how often an entity fills "
        "the slot of the relation; PageRank: from the question's entity, whatever the relation"
    )
    if "relation" in headline.directions:
        echo("of questions for heads and tails alone")


BASELINES = {
    "degree": "which counts how often an entity fills the slot of the relation",
    "PageRank": "which looks at the question's entity alone",
}


def shortfalls(
    baselines: Mapping[str, EntityRanks],
    classification: TripleClassification | None,
    opened: Opened,
    source: Path,
) -> list[str]:
    """Return a warning for each score that is no better than its baseline's, with what to do."""
    lines = []
    ours = baselines["model"].all.mrr if baselines else 0.0
    better = {name: baselines[name].all.mrr for name in BASELINES if name in baselines}
    better = {name: mrr for name, mrr in better.items() if mrr >= ours}
    if better:
        name = max(better, key=better.__getitem__)
        lines.append(
            f"MRR {ours:.4f} is no better than that of {name} ({better[name]:.4f}), "
            f"{BASELINES[name]}: {_more_training(opened, source)}"
        )
    if classification is not None:
        n_true, n_false = classification.n_true, classification.n_false
        majority = max(n_true, n_false) / (n_true + n_false)
        if classification.accuracy.estimate <= majority:
            lines.append(
                f"accuracy {classification.accuracy.estimate:.3f} of triple classification is no "
                f"better than always the same answer ({majority:.3f}): "
                f"{_more_training(opened, source)}"
            )
    return lines


def _more_training(opened: Opened, source: Path) -> str:
    training = opened.described["training"]
    name = training.get("about", {}).get("scorer", opened.described["scorer"])
    epochs = len(training.get("losses") or ())
    if name == "mix":
        remedy = "mix it of scorers that are each above the baselines (kept kgc train --of)"
    elif epochs:
        remedy = (
            f"it had {epochs} epochs: kept kgc train {source} --scorer {name} -o NEW --epochs "
            f"{4 * epochs}"
        )
    else:
        remedy = f"train one on it: kept kgc train {source} --scorer {name} -o NEW"
    other = "complex" if name != "complex" else "nbfnet"
    return f"the scorer has learned little of this graph. {remedy}, or take --scorer {other}"


def _strata(
    opened: Opened, result: RankingResult, rows: NDArray[np.int32]
) -> dict[str, dict[str, Any]]:
    """By stratum: its triples, its questions, and their metrics (None where there is none)."""
    seen = opened.seen
    if seen is None:
        return {}
    triples, questions = seen.strata(rows), seen.strata(result.triples)
    strata = {}
    for name in STRATA:
        part = result.where(questions == name)
        metrics = part.metrics() if part.n_scored else None
        n = int((triples == name).sum())
        strata[name] = {"n_triples": n, "n_questions": part.n_scored, "metrics": metrics}
    return strata


def _show_strata(
    strata: Mapping[str, Mapping[str, Any]], n: int, opened: Opened, *, pooled: bool
) -> None:
    if not strata:
        return
    n_seen = strata[STRATA[0]]["n_triples"]
    if n_seen == n:
        echo(f"training saw every entity and relation of the {counted(n, 'triples')}")
        return
    table = Table("by what training saw", "triples", "questions", "MR", "MRR", "Hits@1", "Hits@3",
                  "Hits@10")  # fmt: skip
    for name, part in strata.items():
        metrics = dict(part["metrics"] or {})
        mean_rank = f"{metrics.pop('mr'):.1f}" if metrics else "–"
        cells = [f"{value:.4f}" for value in metrics.values()] or ["–"] * 4
        table.add_row(name, str(part["n_triples"]), str(part["n_questions"]), mean_rank, *cells)
    TerminalConsole().print(table)
    if opened.completer is not None:
        echo(
            "half seen: one entity or the relation is in no training triple, unseen: neither "
            f"entity is; {opened.described['scorer']} reads entities and has no vector of any, so "
            "the scores above are over all triples"
        )
        return
    of = "all triples, vectors that nothing has trained among them (--pooled)"
    if not pooled:
        of = f"the {n_seen} of {n} triples whose head, relation and tail training saw"
    echo(
        f"the scores above are over {of}; half seen: one entity or the relation is in no training "
        "triple, unseen: neither entity is. Untrained entities compete as candidates everywhere"
    )


def _tell_trained_on(opened: Opened, rows: NDArray[np.int32], split: str) -> None:
    n = opened.trained_on_rows(rows)
    weights = opened.released
    if n is None and weights is not None:
        echo(f"{weights}; test triples may be among what they have seen: kept audit --against")
    elif n is None:
        echo(
            "the training data of these weights are not recorded, so test triples may be "
            "among them; check a data set with kept audit --against"
        )
    elif n:
        echo(f"{n} of the {len(rows)} triples of {split} were trained on: their ranks say nothing")


def _print_json(
    opened: Opened,
    headline: RankingResult,
    strata: Mapping[str, Any],
    baselines: Mapping[str, EntityRanks],
    classification: TripleClassification | None,
    options: EvalOptions,
    rows: NDArray[np.int32],
    warnings: list[str],
) -> None:
    is_all = options.pooled or opened.completer is not None
    n_unseen = sum(part["n_triples"] for name, part in strata.items() if name != STRATA[0])
    printed: dict[str, Any] = {
        "metrics": headline.metrics(), "scored_over": "all" if is_all else STRATA[0],
        **headline.conditions(), "strata": strata, "n_unseen": n_unseen if strata else None,
        "shared": opened.splits.shared(),
        "reversed_in_train": opened.splits.reversed_in_train(),
        "n_repeats": opened.splits.repeats(),
        "repeats_ranked": options.repeats,
        "beside": {name: one.as_json() for name, one in baselines.items()},
        "warnings": warnings,
    }  # fmt: skip
    if opened.completer is not None:
        printed["n_trained_on"] = opened.trained_on_rows(rows)
        printed["released_weights"] = None if opened.released is None else opened.released.name
    if classification is not None:
        printed["classification"] = asdict(classification)
    echo(json.dumps(printed, indent=2))


def _classification(
    opened: Opened, scorer: HasScores, folder: Path | None, together: Processes
) -> TripleClassification | None:
    """By the mean of a triple's scores as an answer for its head and for its tail."""
    if folder is None:
        return None
    splits = opened.splits
    return classify_triples(
        mean_of_directions(scorer), splits.as_mapping(), read_negatives(folder, splits),
        n_relations=splits.graph.n_relations, generator=generator(0, "kgc", "classification"),
        together=together,
    )  # fmt: skip


def _show(result: RankingResult, title: str) -> None:
    table = Table("", "MR", "MRR", "Hits@1", "Hits@3", "Hits@10", title=title)
    parts: dict[str, RankingResult] = {"all": result}
    parts |= {name: result.of(name) for name in result.directions}
    for name, part in parts.items():
        metrics = part.metrics()
        table.add_row(name, f"{metrics.pop('mr'):.1f}", *(f"{v:.4f}" for v in metrics.values()))
    TerminalConsole().print(table)
    echo(str(result).split("\n")[1])
