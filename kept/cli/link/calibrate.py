"""`kept link calibrate`: confidences calibrated on annotated texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from kept.bounds import MAX_SEED
from kept.cli.terminal import echo

if TYPE_CHECKING:
    from entity_linking.calibration.fitting import CrossValidated
    from entity_linking.decision import Decision
    from kept.linking.linkers import Method


def calibrate(
    gold: Annotated[Path, typer.Argument(help="Annotated texts that no part was trained on.")],
    kg: Annotated[Path, typer.Option("--kg", help="Folder of the knowledge graph.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write, for `kept link --decision`.")
    ],
    index: Annotated[
        Path | None, typer.Option(help="Index; give it when linking too.", metavar="FOLDER")
    ] = None,
    method: Annotated[str, typer.Option(help="One of {kept.linking.linkers:Method}.")] = "prior",
    model: Annotated[
        Path | None, typer.Option(help="Folder made by `kept link train`, for method trained.")
    ] = None,
    find: Annotated[
        bool, typer.Option("--find", help="Find mentions; those that GOLD does not mark are NIL.")
    ] = False,
    folds: Annotated[
        int, typer.Option(min=2, max=1000, help="Number of folds of the cross-validation.")
    ] = 5,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of the folds.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw a reliability diagram into this PNG file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Fit the decision of a linker (temperature, NIL, curve, threshold) on annotated texts.

    Without --find GOLD's mentions are taken, as for text that is annotated in part. What is printed
    is cross-validated; the decision is fitted on all of GOLD.

    Example: kept link calibrate gold.jsonl --kg kg/ -o decision.json
    """
    from entity_linking.annotations import read_jsonl
    from entity_linking.calibration.fitting import (
        FittedDecision,
        answers,
        cross_validated,
        fit,
        save_decision,
    )
    from entity_linking.calibration.reliability import draw_reliability, reliability
    from entity_linking.errors import ScoreError
    from kept.linking.linkers import LinkerSettings, open_graph, open_linker
    from kg_loaders.damage import DamageReport
    from kg_loaders.disk.writing import refuse_file

    for path in [output] if plot is None else [output, plot]:
        refuse_file(path, force=force, inputs=[gold])
    settings = LinkerSettings(
        kg=str(kg),
        index=None if index is None else str(index),
        model=None if model is None else str(model),
        method=cast("Method", method),
    )
    texts = list(read_jsonl(gold, DamageReport()))
    graph = open_graph(settings)
    linker = open_linker(settings, graph)
    linked = linker.link([text.text for text in texts]) if find else linker.disambiguate(texts)
    seen = answers(texts, linked, unmarked="nil" if find else "skip", known=graph.entities)
    n_texts = len({each.text for each in seen})
    if n_texts < folds:
        raise ScoreError(
            f"{gold}: {n_texts} texts have mentions with candidates, too few for {folds} folds; "
            "annotate more, or give fewer --folds"
        )
    checked = cross_validated(seen, linker.decision, n_folds=folds, seed=seed)
    decision = fit(seen, linker.decision)
    fitted = FittedDecision(decision, graph.content_hash, repr(linker.scorer), gold.name, len(seen))
    save_decision(fitted, output, force=force, inputs=[gold])
    _tell(checked, decision)
    if plot is not None:
        before, after = (
            reliability(sure, checked.correct) for sure in (checked.raw, checked.calibrated)
        )
        draw_reliability(before, after, plot, title=f"{method}, cross-validated", force=force)
    echo(f"{len(seen)} mentions with candidates in {n_texts} texts; in {output}")


def _tell(checked: CrossValidated, decision: Decision) -> None:
    echo(f"before: {checked.before}")
    echo(f"after:  {checked.after}")
    nil = "no share" if decision.nil_score is None else f"score {decision.nil_score:.3f}"
    echo(
        f"temperature {decision.temperature:.3f}, NIL with {nil}, "
        f"a curve of {len(decision.curve)} points, "
        f"NIL below {decision.nil_below:.3f}"
    )
