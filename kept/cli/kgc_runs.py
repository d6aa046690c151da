"""What the sub-commands of `kept kgc` do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast, get_args

import torch
from rich.progress import Progress
from rich.table import Table

from kept.cli.console import TerminalConsole
from kept.cli.terminal import echo
from kept.errors import ConfigError
from kept.evaluation.ranking import SLOTS, Direction, Filter, RankingResult, Ties, rank
from kept.evaluation.triple_classification import TripleClassification, classify_triples
from kept.kge.comparisons import Norm
from kept.kge.reciprocal import make_reciprocal
from kept.kge.scorers import Scorer, make_scorer
from kept.kge.splits import SPLITS, Splits, read_negatives, read_splits
from kept.kge.trained import (
    KIND,
    check_splits,
    is_scorer,
    load_scorer,
    read_description,
    save_scorer,
)
from kept.kge.training import TrainingHistory, train
from kept.kge.training_config import RECIPES, TrainingConfig
from kept.randomness import generator
from kg_loaders.writing import refuse_folder


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
    if name not in RECIPES:
        raise ConfigError(f"scorer {name!r} is unknown; take one of {', '.join(RECIPES)}")
    splits = read_splits(source, holdout=holdout, seed=seed)
    _tell_shared(splits)
    recipe_width, config = RECIPES[name]
    config = replace(config, n_epochs=epochs or config.n_epochs)
    draws = torch.Generator().manual_seed(seed)
    make = make_reciprocal if reciprocal else make_scorer
    scorer: Scorer = make(
        name, n_entities=splits.graph.n_entities, n_relations=splits.graph.n_relations,
        width=width or recipe_width, generator=draws, norm=cast(Norm | None, norm),
    )  # fmt: skip
    history = _train(scorer, splits, config, draws)
    training = {
        "seed": seed, "holdout": holdout, "splits_hash": splits.splits_hash,
        "config": asdict(config), "losses": history.losses, "validations": history.validations,
        "best_epoch": history.best_epoch,
    }  # fmt: skip
    save_scorer(output, scorer, splits.graph, training, force=force)
    kind = f"{name} with inverse relations" if reciprocal else name
    echo(f"{output}: {kind}, {len(history.losses)} epochs in {history.seconds:.0f} s")
    for epoch, value in history.validations:
        echo(f"  epoch {epoch}: validation MRR {value:.4f}")


def evaluate(
    source: Path,
    model: Path,
    *,
    split: str,
    ties: str,
    directions: Sequence[str],
    negatives: Path | None,
    as_json: bool,
) -> None:
    """Print filtered ranks of a split and everything they depend on.

    With a folder of `negatives`, triples of test are classified too, by thresholds fitted on valid.
    """
    splits, scorer = _load(source, model)
    check_splits(model, splits)
    if split not in SPLITS:
        raise ConfigError(f"split {split!r} is unknown; take one of {', '.join(SPLITS)}")
    result = rank(scorer, splits.as_mapping()[split], filter=_filter(splits), ties=_ties(ties),
                  directions=_directions(directions), candidates="all")  # fmt: skip
    n_unseen = splits.n_unseen(split)
    found = None if negatives is None else _classify(splits, scorer, negatives)
    if as_json:
        told = {"metrics": result.metrics(), **result.conditions(), "n_unseen": n_unseen,
                "shared": splits.shared()}  # fmt: skip
        told |= {} if found is None else {"classification": asdict(found)}
        echo(json.dumps(told, indent=2))
        return
    _show(result, f"{model.name} on {source.name}, {split}")
    echo(f"{n_unseen} triples hold an entity or relation unseen in training")
    _tell_shared(splits)
    if found is not None:
        echo(f"triple classification of test: {found}")


def predict(
    source: Path, model: Path, asked: tuple[str, str, str], *, top: int, as_json: bool
) -> None:
    """Print the best answers for the slot "?"."""
    splits, scorer = _load(source, model)
    if asked.count("?") != 1:
        raise ConfigError(f'exactly one of head, relation and tail must be "?", not {asked}')
    graph = splits.graph
    direction = next(name for name, slot in SLOTS.items() if asked[slot] == "?")
    vocabularies = (graph.entities, graph.relations, graph.entities)
    pairs = zip(asked, vocabularies, strict=True)
    query = torch.tensor([[0 if name == "?" else names.id(name) for name, names in pairs]])
    with torch.no_grad():
        scores = scorer.scores(direction, query)[0]
    known = frozenset(_filter(splits).known(direction, query.numpy())[1].tolist())
    label = graph.relation_label if direction == "relation" else graph.label
    best = torch.argsort(scores, descending=True, stable=True)[:top].tolist()
    rows = [
        (vocabularies[SLOTS[direction]].name(index), label(index), float(scores[index]),
         index in known)
        for index in best
    ]  # fmt: skip
    if as_json:
        told = [dict(zip(("id", "label", "score", "known"), row, strict=True)) for row in rows]
        echo(json.dumps(told, indent=2, ensure_ascii=False))
        return
    table = Table("rank", "id", "label", "score", "known")
    for place, (name, text, score, is_known) in enumerate(rows, 1):
        table.add_row(str(place), name, text, f"{score:.3f}", "yes" if is_known else "")
    TerminalConsole().print(table)


def _classify(splits: Splits, scorer: Scorer, folder: Path) -> TripleClassification:
    return classify_triples(
        scorer.score_triples, splits.as_mapping(), read_negatives(folder, splits),
        n_relations=splits.graph.n_relations, generator=generator(0, "kgc", "classification"),
    )  # fmt: skip


def _train(
    scorer: Scorer, splits: Splits, config: TrainingConfig, draws: torch.Generator
) -> TrainingHistory:
    known = _filter(splits)

    def validate(current: Scorer) -> float:
        return rank(current, splits.valid, filter=known, ties="realistic",
                    directions=("head", "tail"), candidates="all").mrr  # fmt: skip

    with Progress(console=TerminalConsole(stderr=True)) as progress:
        task = progress.add_task("training", total=config.n_epochs)

        def on_epoch(epoch: int, loss: float) -> None:
            progress.update(task, completed=epoch, description=f"loss {loss:.3f}")

        return train(scorer, splits.train, config=config, generator=draws,
                     validate=validate, on_epoch=on_epoch)  # fmt: skip


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
