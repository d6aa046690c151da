"""`kept link train`: a re-ranker from annotated texts."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from kept.apps.cli.options import LinkCase, RedirectFile
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_SEED
from kept.help_texts import GOLD, HELD_OUT, KG, LINK_INDEX, SEED

if TYPE_CHECKING:
    from entity_linking.mentions import LinkedText
    from entity_linking.names.rules.case import Case
    from kg_loaders import KnowledgeGraph


def train(
    gold: Annotated[Path, typer.Argument(help=GOLD)],
    kg: Annotated[Path, typer.Option("--kg", help=KG)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to make.")],
    held_out: Annotated[
        str,
        typer.Option(metavar="FILE|SHARE", help=HELD_OUT),
    ] = "0.1",
    index: Annotated[Path | None, typer.Option(help=LINK_INDEX)] = None,
    case: LinkCase = None,
    redirects: RedirectFile = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help=SEED)] = 0,
    epochs: Annotated[
        int, typer.Option(min=1, max=10**6, help="Largest number of passes over the texts.")
    ] = 40,
    hidden: Annotated[
        int,
        typer.Option(
            min=0,
            max=4096,
            help="Number of hidden units. 0 means a log-linear model, which needs fewer texts.",
        ),
    ] = 0,
    networks: Annotated[
        int,
        typer.Option(
            min=1, max=100, help="With --hidden: number of networks whose scores are averaged."
        ),
    ] = 1,
    also: Annotated[
        list[Path] | None,
        typer.Option(
            help="Annotated texts of another kind, for instance news if GOLD is encyclopedia "
            "articles. May be repeated."
        ),
    ] = None,
    decision: Annotated[
        Path | None,
        typer.Option(
            help="With --also: file to write for `kept link --decision`, for texts of kinds that "
            "were not trained on."
        ),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            help="Also use this scorer: coherence (walks over the graph), dense (similarity of "
            "context and description) or cross (the cross-encoder of the index). May be "
            "repeated."
        ),
    ] = None,
    by_name_only: Annotated[
        float,
        typer.Option(
            "--bare",
            min=0,
            max=1,
            help="Share of entities whose descriptions and facts are hidden in training, so that "
            "the model also learns to link entities with nothing but a name.",
        ),
    ] = 0.0,
    everywhere: Annotated[
        bool,
        typer.Option(
            "--everywhere",
            help="Let dense and cross score every mention, not only those that the other scorers "
            "leave undecided. Slower.",
        ),
    ] = False,
    absent: Annotated[
        str,
        typer.Option(
            help="What to do with mentions whose gold entity is not among the candidates: nil "
            "(train NIL on them) or skip."
        ),
    ] = "nil",
    force: Annotated[
        bool, typer.Option("--force", help="Replace OUTPUT if it is a re-ranker.")
    ] = False,
) -> None:
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
    from entity_linking.scorers.reranker import KIND, Reranker, is_reranker, with_gold
    from kept.linking.bare import drawn_entities
    from kept.linking.linkers import EXPENSIVE, LinkerSettings, open_for_training, open_graph
    from kg_loaders.disk.writing import refuse_file, refuse_folder

    if absent not in ("nil", "skip"):
        raise LinkingError(f"--absent is {absent!r}; choose nil or skip")
    files = _files(gold, also or [], held_out, decision)
    refuse_folder(output, kind=KIND, is_kind=is_reranker, force=force, inputs=[*files, kg])
    if decision is not None:
        refuse_file(decision, force=force, inputs=files)
    settings = RerankSettings(
        seed=seed,
        epochs=epochs,
        hidden=hidden,
        absent="skip" if absent == "skip" else "nil",
        networks=networks,
    )
    where = LinkerSettings(
        kg=str(kg), case=cast("Case | None", case), index=None if index is None else str(index)
    )
    graph = open_graph(where)
    split = {path.name: texts_of(path, held_out, seed) for path in files}
    if redirects is not None:
        split = _resolved(split, redirects, graph)
    unknown = drawn_entities(graph, by_name_only, seed) if by_name_only else None
    linker, scorers = open_for_training(where, graph, add or (), by_name_only=unknown)
    kinds = {
        name: Kind(*(with_gold(linker.propose(part), part) for part in parts))
        for name, parts in split.items()
    }
    texts = [text for kind in kinds.values() for text in kind.train]
    stop = [text for kind in kinds.values() for text in kind.held_out]
    began = time.perf_counter()
    name = ", ".join(kinds)
    expensive = [] if everywhere else [each for each in scorers if each in EXPENSIVE]
    model = Reranker.fit(
        scorers, texts, stop, settings=settings, graph_hash=graph.content_hash, trained_on=name,
        expensive=expensive,
    )  # fmt: skip
    model.save(output, force=force)
    record = model.record
    echo(
        f"{record.n_mentions} mentions with candidates ({record.n_nil} NIL) in {len(texts)} texts, "
        f"{record.n_held_out} held out; best epoch {record.best_epoch}, held-out loss "
        f"{record.held_out_loss:.4f}, {time.perf_counter() - began:.1f} s"
    )
    if model.asking is not None:
        echo(str(model.asking))
    echo(
        f"held-out accuracy, NIL an answer: {model.accuracy(stop):.4f}; "
        f"the best prior, never NIL: {_prior_accuracy(stop, settings.absent):.4f}; in {output}"
    )
    if decision is not None:
        by_kind = answers_on_other_kinds(scorers, kinds, settings)
        fitted_decision = decision_for_other_kinds(by_kind, settings.seed)
        seen = balanced(by_kind, settings.seed)
        fitted = FittedDecision(
            fitted_decision, graph.content_hash, repr(model), name, len(seen),
            above_linked=above_linked(by_kind),
        )  # fmt: skip
        save_decision(fitted, decision, force=force, inputs=files)
        raw, right = confidences(seen, replace(fitted_decision, curve=()))
        echo(
            f"on a kind of text that was held out {len(seen)} links are {raw.mean():.3f} sure and "
            f"{right.mean():.3f} right; confidence for other kinds of text in {decision}"
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
