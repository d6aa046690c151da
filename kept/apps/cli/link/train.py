"""`kept link train`: a re-ranker from annotated texts."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kept.apps.cli.declared import argument, option, required, switch, takes
from kept.apps.cli.options import LinkCase, RedirectFile
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_SEED
from kept.help_texts import GOLD, HELD_OUT, KG, LINK_INDEX, SEED
from kg_loaders.counting import counted

if TYPE_CHECKING:
    from entity_linking.mentions import LinkedText
    from kg_loaders import KnowledgeGraph


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What the command is given; a field is an option."""

    gold: Path = argument(GOLD)
    kg: Path = required(KG)
    output: Path = required("Folder to make.", "--output", "-o")
    held_out: str = option(HELD_OUT, default="0.1", metavar="FILE|SHARE")
    index: Path | None = option(LINK_INDEX)
    case: LinkCase = None
    redirects: RedirectFile = None
    seed: int = option(SEED, default=0, bounds=(0, MAX_SEED))
    epochs: int = option("Largest number of passes over the texts.", default=40, bounds=(1, 10**6))
    hidden: int = option(
        "Number of hidden units. 0 means a log-linear model, which needs fewer texts.",
        default=0,
        bounds=(0, 4096),
    )
    networks: int = option(
        "With --hidden: number of networks whose scores are averaged.", default=1, bounds=(1, 100)
    )
    also: list[Path] | None = option(
        "Annotated texts of another kind, for instance news if GOLD is encyclopedia "
        "articles. May be repeated."
    )
    decision: Path | None = option(
        "With --also: file to write for `kept link --decision`, for texts of kinds that "
        "were not trained on."
    )
    add: list[str] | None = option(
        "Also use this scorer: coherence (walks over the graph), dense (similarity of "
        "context and description) or cross (the cross-encoder of the index). May be "
        "repeated."
    )
    by_name_only: float = option(
        "Share of entities whose descriptions and facts are hidden in training, so that "
        "the model also learns to link entities with nothing but a name.",
        "--bare",
        default=0.0,
        bounds=(0, 1),
    )
    everywhere: bool = switch(
        "Let dense and cross score every mention, not only those that the other scorers "
        "leave undecided. Slower."
    )
    absent: str = option(
        "What to do with mentions whose gold entity is not among the candidates: nil "
        "(train NIL on them) or skip.",
        default="nil",
    )
    force: bool = switch("Replace OUTPUT if it is a re-ranker.")


@takes(TrainOptions)
def train(options: TrainOptions) -> None:
    """Train a re-ranker of the linker's candidates, with NIL, on annotated texts.

    Example: kept link train gold.jsonl --kg kg/ --add coherence -o reranker/
    """
    from entity_linking.calibration.answers import confidences
    from entity_linking.calibration.fitting import FittedDecision, save_decision
    from entity_linking.calibration.other_kinds import (
        Kind,
        above_linked,
        answers_on_other_kinds,
        balanced,
        decision_for_other_kinds,
    )
    from entity_linking.errors import LinkingError
    from entity_linking.scorers.rerank_parts import RerankSettings
    from entity_linking.scorers.reranker import RERANKER, Reranker, with_gold
    from kept.linking.bare import drawn_entities
    from kept.linking.linkers import EXPENSIVE, open_for_training, open_graph, settings_from
    from kg_loaders.disk.columns import replaced
    from kg_loaders.disk.writing import refuse_file, refuse_folder

    if options.absent not in ("nil", "skip"):
        raise LinkingError(f"--absent is {options.absent!r}; choose nil or skip")
    files = _files(options.gold, options.also or [], options.held_out, options.decision)
    inputs = [*files, options.kg]
    refuse_folder(options.output, **replaced(RERANKER), force=options.force, inputs=inputs)
    if options.decision is not None:
        refuse_file(options.decision, force=options.force, inputs=files)
    settings = RerankSettings(
        seed=options.seed,
        epochs=options.epochs,
        hidden=options.hidden,
        absent="skip" if options.absent == "skip" else "nil",
        networks=options.networks,
    )
    where = settings_from(options, "kg", "case", "index")
    graph = open_graph(where)
    split = {path.name: texts_of(path, options.held_out, options.seed) for path in files}
    if options.redirects is not None:
        split = _resolved(split, options.redirects, graph)
    share = options.by_name_only
    unknown = drawn_entities(graph, share, options.seed) if share else None
    linker, scorers = open_for_training(where, graph, options.add or (), by_name_only=unknown)
    kinds = {
        name: Kind(*(with_gold(linker.propose(part), part) for part in parts))
        for name, parts in split.items()
    }
    texts = [text for kind in kinds.values() for text in kind.train]
    stop = [text for kind in kinds.values() for text in kind.held_out]
    began = time.perf_counter()
    name = ", ".join(kinds)
    expensive = [] if options.everywhere else [each for each in scorers if each in EXPENSIVE]
    model = Reranker.fit(
        scorers, texts, stop, settings=settings, graph_hash=graph.content_hash, trained_on=name,
        expensive=expensive,
    )  # fmt: skip
    model.save(options.output, force=options.force)
    record = model.record
    echo(
        f"{counted(record.n_mentions, 'mentions')} with candidates ({record.n_nil} NIL) in "
        f"{counted(len(texts), 'texts')}, "
        f"{record.n_held_out} held out; best epoch {record.best_epoch}, held-out loss "
        f"{record.held_out_loss:.4f}, {time.perf_counter() - began:.1f} s"
    )
    if model.asking is not None:
        echo(str(model.asking))
    echo(
        f"held-out accuracy, NIL an answer: {model.accuracy(stop):.4f}; "
        f"the best prior, never NIL: {_prior_accuracy(stop, settings.absent):.4f}; "
        f"in {options.output}"
    )
    if options.decision is not None:
        by_kind = answers_on_other_kinds(scorers, kinds, settings)
        fitted_decision = decision_for_other_kinds(by_kind, settings.seed)
        seen = balanced(by_kind, settings.seed)
        fitted = FittedDecision(
            fitted_decision, graph.content_hash, repr(model), name, len(seen),
            above_linked=above_linked(by_kind),
        )  # fmt: skip
        save_decision(fitted, options.decision, force=options.force, inputs=files)
        raw, right = confidences(seen, replace(fitted_decision, curve=()))
        echo(
            f"on a kind of text that was held out {len(seen)} links are {raw.mean():.3f} sure and "
            f"{right.mean():.3f} right; confidence for other kinds of text in {options.decision}"
        )
        for kind, answers in by_kind.items():
            shares = f"{answers.linked:.3f} of the names linked, {answers.right:.3f} right"
            echo(f"{kind} held out: {shares}")


def _files(gold: Path, also: list[Path], held_out: str, decision: Path | None) -> list[Path]:
    """The annotated files, each of a kind of its own."""
    from entity_linking.errors import LinkingError

    files = [gold, *also]
    if len({path.name for path in files}) < len(files):
        raise LinkingError("--also names a file twice, or two files alike; rename one")
    if also and Path(held_out).is_file():
        raise LinkingError(
            f"--held-out {held_out} is one file, and every kind of text needs some; give a share"
        )
    if decision is not None and not also:
        raise LinkingError(
            "--decision is for text of another kind, and what to expect there shows where one "
            "kind is left out; give --also FILE, or fit a decision by kept link calibrate"
        )
    return files


def _resolved(
    split: dict[str, tuple[list[LinkedText], list[LinkedText]]], path: Path, graph: KnowledgeGraph
) -> dict[str, tuple[list[LinkedText], list[LinkedText]]]:
    """The texts of each file by the redirects of `path`; prints how many links were resolved."""
    from entity_linking.annotations.redirects import Redirects

    redirects, resolved = Redirects.read(path), {}
    for name, parts in split.items():
        train, stop = (redirects.resolve(part, lambda e: e in graph.entities) for part in parts)
        n_links = train.n_links + stop.n_links
        echo(f"{name}: {train.n_resolved + stop.n_resolved} of {n_links} links were redirects")
        resolved[name] = (train.texts, stop.texts)
    return resolved


def texts_of(gold: Path, held_out: str, seed: int) -> tuple[list[LinkedText], list[LinkedText]]:
    """Texts to train on and texts to stop by: a file, or a share of GOLD."""
    from entity_linking.annotations import read_jsonl
    from entity_linking.errors import LinkingError
    from entity_linking.scorers.reranker import split_by_text
    from kg_loaders.damage import DamageReport

    texts = list(read_jsonl(gold, DamageReport()))
    if Path(held_out).is_file():
        return texts, list(read_jsonl(held_out, DamageReport()))
    try:
        share = float(held_out)
    except ValueError as error:
        raise LinkingError(f"--held-out {held_out!r} is neither a file nor a share") from error
    return split_by_text(texts, share=share, seed=seed)


def _prior_accuracy(texts: list[LinkedText], absent: str) -> float:
    """Priors from 1 on: no candidate loses to NIL, which stands at 0."""
    from entity_linking.scorers.rerank_table import tabulate
    from entity_linking.scorers.reranker import table_accuracy

    table = tabulate({}, texts)
    return table_accuracy(table, 1.0 + table.rows.priors, absent)
