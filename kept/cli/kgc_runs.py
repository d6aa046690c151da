"""What the sub-commands of `kept kgc` do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import Progress
from rich.table import Column, Table

from kept.cli.console import TerminalConsole
from kept.cli.terminal import echo
from kept.errors import ConfigError, EvaluationError
from kept.evaluation.ranking import SLOTS, Direction, Filter, HasScores, RankingResult, Ties, rank
from kept.evaluation.triple_classification import TripleClassification, classify_triples
from kept.kge.comparisons import Norm
from kept.kge.prediction import best_answers
from kept.kge.reciprocal import make_reciprocal
from kept.kge.scorers import Scorer, make_scorer
from kept.kge.splits import SPLITS, STRATA, Splits, read_negatives, read_splits
from kept.kge.trained import (
    KIND,
    check_splits,
    is_scorer,
    load_scorer,
    read_description,
    read_seen,
    save_scorer,
    unseen_ids,
)
from kept.kge.training import TrainingHistory, train
from kept.kge.training_config import NETWORK_RECIPES, RECIPES, BERTMKRecipe
from kept.randomness import generator
from kg_loaders.disk.writing import refuse_folder


def train_scorer(
    source: Path,
    output: Path,
    *,
    name: str,
    reciprocal: bool,
    epochs: int | None,
    width: int | None,
    norm: int | None,
    seed: int,
    holdout: float,
    force: bool,
) -> None:
    """Train by recipe with a progress bar and save."""
    refuse_folder(output, kind=KIND, is_kind=is_scorer, force=force, inputs=[source])
    if name not in RECIPES and name not in NETWORK_RECIPES:
        known = ", ".join([*RECIPES, *NETWORK_RECIPES])
        raise ConfigError(f"scorer {name!r} is unknown; take one of {known}")
    splits = read_splits(source, holdout=holdout, seed=seed)
    _tell_shared(splits)
    draws = torch.Generator().manual_seed(seed)
    make = _trained_network if name in NETWORK_RECIPES else _trained_scorer
    scorer, history, config = make(
        splits, draws, name=name, reciprocal=reciprocal, epochs=epochs, width=width, norm=norm
    )
    training = {
        "seed": seed, "holdout": holdout, "splits_hash": splits.splits_hash,
        "unseen": unseen_ids(splits),
        "losses": history.losses, "validations": history.validations,
        "best_epoch": history.best_epoch, **config,
    }  # fmt: skip
    save_scorer(output, scorer, splits.graph, training, force=force)
    kind = f"{name} with inverse relations" if reciprocal else name
    echo(f"{output}: {kind}, {len(history.losses)} epochs in {history.seconds:.0f} s")
    for epoch, value in history.validations:
        echo(f"  epoch {epoch}: validation MRR {value:.4f}")
    if history.validations:
        n_asked, n_valid = len(_chosen_by(splits)), len(splits.valid)
        if n_asked < n_valid:
            echo(f"by the {n_asked} of {n_valid} validation triples that training has seen all of")
        early = ", training stopped early" if history.stopped_early else ""
        echo(f"the weights of epoch {history.best_epoch} were kept{early}")


def _trained_scorer(
    splits: Splits,
    draws: torch.Generator,
    *,
    name: str,
    reciprocal: bool,
    epochs: int | None,
    width: int | None,
    norm: int | None,
) -> tuple[Scorer, TrainingHistory, dict[str, Any]]:
    """A scorer trained by its recipe, and the configuration."""
    recipe_width, config = RECIPES[name]
    config = replace(config, n_epochs=epochs or config.n_epochs)
    make = make_reciprocal if reciprocal else make_scorer
    scorer: Scorer = make(
        name, n_entities=splits.graph.n_entities, n_relations=splits.graph.n_relations,
        width=width or recipe_width, generator=draws, norm=cast(Norm | None, norm),
    )  # fmt: skip
    with _progress(config.n_epochs) as on_epoch:
        history = train(scorer, splits.train, config=config, generator=draws,
                        validate=_validation(splits), on_epoch=on_epoch)  # fmt: skip
    return scorer, history, {"config": asdict(config)}


def _trained_network(
    splits: Splits,
    draws: torch.Generator,
    *,
    name: str,
    reciprocal: bool,
    epochs: int | None,
    width: int | None,
    norm: int | None,
) -> tuple[Scorer, TrainingHistory, dict[str, Any]]:
    """The decoder over a trained network's states, and the configuration."""
    from kept.kge.gnn.bertmk import train_bertmk
    from kept.kge.gnn.recipes import train_network  # torch-geometric takes seconds to import

    if reciprocal or norm is not None:
        raise ConfigError(f"{name} reads inverse relations as it is: no --reciprocal, no --norm")
    recipe = NETWORK_RECIPES[name]
    config = replace(recipe.config, n_epochs=epochs or recipe.config.n_epochs)
    recipe = replace(recipe, config=config, width=width or recipe.width)
    with _progress(config.n_epochs) as on_epoch:
        given: dict[str, Any] = {
            "generator": draws, "validate": _validation(splits), "on_epoch": on_epoch
        }  # fmt: skip
        if isinstance(recipe, BERTMKRecipe):
            scorer, history = train_bertmk(splits, recipe, **given)
        else:
            scorer, history = train_network(splits, recipe, **given)
    return scorer, history, {"config": asdict(config), "network": recipe.as_json()}


def evaluate(
    source: Path,
    model: Path,
    *,
    split: str,
    ties: str,
    directions: Sequence[str],
    negatives: Path | None,
    pooled: bool,
    as_json: bool,
) -> None:
    """Print filtered ranks of a split and everything they depend on.

    Triples with an entity or relation that training never saw are scored apart, unless `pooled`.
    With a folder of `negatives`, triples of test are classified too, by thresholds fitted on valid.
    """
    splits, scorer = _load(source, model)
    check_splits(model, splits)
    if split not in SPLITS:
        raise ConfigError(f"split {split!r} is unknown; take one of {', '.join(SPLITS)}")
    rows = splits.as_mapping()[split]
    result = rank(scorer, rows, filter=_filter(splits), ties=_ties(ties),
                  directions=_directions(directions), candidates="all")  # fmt: skip
    strata = _strata(result, splits, split)
    headline = result if pooled else result.where(splits.seen.strata(result.triples) == STRATA[0])
    if not headline.n_scored:
        raise EvaluationError(
            f"none of the {len(rows)} triples of {split} holds only what training saw; "
            "--pooled scores all of them together"
        )
    classification = None if negatives is None else _classify(splits, scorer, negatives)
    if as_json:
        printed = {"metrics": headline.metrics(), "scored_over": "all" if pooled else STRATA[0],
                **headline.conditions(), "strata": strata, "n_unseen": splits.n_unseen(split),
                "shared": splits.shared()}  # fmt: skip
        printed |= {} if classification is None else {"classification": asdict(classification)}
        echo(json.dumps(printed, indent=2))
        return
    _show(headline, f"{model.name} on {source.name}, {split}")
    _show_strata(strata, len(rows), pooled=pooled)
    _tell_shared(splits)
    if classification is not None:
        echo(f"triple classification of test: {classification}")


def _strata(result: RankingResult, splits: Splits, split: str) -> dict[str, dict[str, Any]]:
    """By stratum: its triples, its questions, and their metrics (None where there is none)."""
    triples = splits.seen.strata(splits.as_mapping()[split])
    questions = splits.seen.strata(result.triples)
    strata = {}
    for name in STRATA:
        part = result.where(questions == name)
        metrics = part.metrics() if part.n_scored else None
        n = int((triples == name).sum())
        strata[name] = {"n_triples": n, "n_questions": part.n_scored, "metrics": metrics}
    return strata


def _show_strata(strata: Mapping[str, Mapping[str, Any]], n: int, *, pooled: bool) -> None:
    n_seen = strata[STRATA[0]]["n_triples"]
    if n_seen == n:
        echo(f"training saw every entity and relation of the {n} triples")
        return
    table = Table("by what training saw", "triples", "questions", "MR", "MRR", "Hits@1", "Hits@3",
                  "Hits@10")  # fmt: skip
    for name, part in strata.items():
        metrics = dict(part["metrics"] or {})
        mean_rank = f"{metrics.pop('mr'):.1f}" if metrics else "–"
        cells = [f"{value:.4f}" for value in metrics.values()] or ["–"] * 4
        table.add_row(name, str(part["n_triples"]), str(part["n_questions"]), mean_rank, *cells)
    TerminalConsole().print(table)
    of = "all triples, vectors that nothing has trained among them (--pooled)"
    if not pooled:
        of = f"the {n_seen} of {n} triples whose head, relation and tail training saw"
    echo(
        f"the scores above are over {of}; half seen: one entity or the relation is in no training "
        "triple, unseen: neither entity is. Untrained entities compete as candidates everywhere"
    )


def predict(
    source: Path,
    model: Path,
    triple: tuple[str, str, str],
    *,
    top: int,
    untrained: bool,
    as_json: bool,
) -> None:
    """Print the best answers for the slot "?"; see `kept.kge.prediction.best_answers`."""
    splits, scorer = _load(source, model)
    answers = best_answers(
        scorer, splits, read_seen(model, splits), triple, n=top, untrained=untrained
    )
    if as_json:
        echo(json.dumps([asdict(answer) for answer in answers.best], indent=2, ensure_ascii=False))
        return
    table = Table("rank", Column("id", no_wrap=True, overflow="ignore"), "label", "score", "known",
                  "trained")  # fmt: skip
    for place, answer in enumerate(answers.best, 1):
        table.add_row(
            str(place), answer.id, answer.label, f"{answer.score:.3f}",
            "yes" if answer.known else "", "" if answer.trained else "no",
        )  # fmt: skip
    TerminalConsole().print_whole(table)
    if answers.left_out is not None:
        echo(f"{answers.left_out} itself is left out: no known triple of the relation is a loop")
    if answers.n_untrained:
        echo(f"{answers.n_untrained} left out: training never saw them; --untrained lets them in")
    if not all(answer.trained for answer in answers.best):
        echo('"trained" no: made of vectors that nothing has moved; the score means nothing')


def _classify(splits: Splits, scorer: Scorer, folder: Path) -> TripleClassification:
    return classify_triples(
        scorer.score_triples, splits.as_mapping(), read_negatives(folder, splits),
        n_relations=splits.graph.n_relations, generator=generator(0, "kgc", "classification"),
    )  # fmt: skip


def _validation(splits: Splits) -> Callable[[HasScores], float]:
    """MRR over the triples that choose an epoch."""
    known, triples = _filter(splits), _chosen_by(splits)

    def validate(current: HasScores) -> float:
        return rank(current, triples, filter=known, ties="realistic",
                    directions=("head", "tail"), candidates="all").mrr  # fmt: skip

    return validate


@contextmanager
def _progress(n_epochs: int) -> Iterator[Callable[[int, float], None]]:
    with Progress(console=TerminalConsole(stderr=True)) as progress:
        task = progress.add_task("training", total=n_epochs)

        def on_epoch(epoch: int, loss: float) -> None:
            progress.update(task, completed=epoch, description=f"loss {loss:.3f}")

        yield on_epoch


def _chosen_by(splits: Splits) -> NDArray[np.integer]:
    """The validation triples that choose an epoch: those of what training sees, as in evaluation.

    Ranks of vectors that were never trained are noise; without a seen triple there are no others.
    """
    is_seen = splits.seen.strata(splits.valid) == STRATA[0]
    return splits.valid[is_seen] if is_seen.any() else splits.valid


def _load(source: Path, model: Path) -> tuple[Splits, Scorer]:
    """The source, cut as the training cut it, and the scorer; the source may hold other triples."""
    training = read_description(model)["training"]
    holdout, seed = training.get("holdout", 0.05), training.get("seed", 0)
    splits = read_splits(source, holdout=holdout, seed=seed)
    return splits, load_scorer(model, splits.graph).scorer


def _tell_shared(splits: Splits) -> None:
    """A tested triple that was trained on is no question: its rank says nothing."""
    for pair, n in splits.shared().items():
        of, other = pair.split(" in ")
        echo(f"{n} of the {len(splits.as_mapping()[of])} triples of {of} are in {other} too")


def _filter(splits: Splits) -> Filter:
    graph = splits.graph
    return Filter(
        splits.as_mapping(), n_entities=graph.n_entities, n_relations=graph.n_relations
    )  # fmt: skip


def _ties(name: str) -> Ties:
    known: tuple[Ties, ...] = get_args(Ties)
    for rule in known:
        if name == rule:
            return rule
    raise ConfigError(f"tie rule {name!r} is unknown; take one of {', '.join(known)}")


def _directions(names: Sequence[str]) -> tuple[Direction, ...]:
    wrong = [name for name in names if name not in SLOTS]
    if wrong:
        raise ConfigError(f"directions {wrong} are unknown; take any of {', '.join(SLOTS)}")
    return tuple(name for name in SLOTS if name in names)


def _show(result: RankingResult, title: str) -> None:
    table = Table("", "MR", "MRR", "Hits@1", "Hits@3", "Hits@10", title=title)
    parts: dict[str, RankingResult] = {"all": result}
    parts |= {name: result.of(name) for name in result.directions}
    for name, part in parts.items():
        metrics = part.metrics()
        table.add_row(name, f"{metrics.pop('mr'):.1f}", *(f"{v:.4f}" for v in metrics.values()))
    TerminalConsole().print(table)
    echo(str(result).split("\n")[1])
