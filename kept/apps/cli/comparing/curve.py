"""`kept curve`: a fine-tuned model's score against the share of wrong links."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kept.apps.cli.terminal import echo
from kept.errors import ConfigError
from kept.help_texts import FORCE_FILES

FILES = ("curve.md", "curve.csv", "curve.png")


def curve(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run of `kept finetune`.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for curve.csv, curve.md and curve.png.")
    ],
    shares: Annotated[
        str, typer.Option(help="Shares of links to corrupt, separated by commas.")
    ] = ("0,0.1,0.25,0.5,1"),
    kinds: Annotated[
        str,
        typer.Option(
            help="How links are corrupted, separated by commas: drop (removed), swap (replaced "
            "by a likely error), random (replaced by any entity)."
        ),
    ] = "drop,swap,random",
    name: Annotated[
        str, typer.Option("--set", help="Examples to evaluate on: dev or test.")
    ] = "dev",
    spread: Annotated[
        float | None,
        typer.Option(
            min=1e-3,
            max=1e3,
            help="Give links the confidences of a simulated calibrated linker. At 1 they "
            "separate right from wrong links well, at 10 hardly (default: links keep their "
            "confidence).",
        ),
    ] = None,
    weigh_links: Annotated[
        bool | None,
        typer.Option(
            help="Whether links count by their confidence in the model (default: as in training)."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help=FORCE_FILES)] = False,
) -> None:
    """Evaluate a trained model with growing shares of dropped or wrong links. Nothing is trained.

    Example: kept curve run/ -o run/curve --shares 0,0.5,1 --kinds drop
    """
    from kept.inputs.controls.link_errors import KINDS
    from kept.plotting import require_plotting
    from kept.training.finetuning.assembly import assemble
    from kept.training.finetuning.config import FinetuneConfig
    from kept.training.finetuning.link_error_curve import (
        as_markdown,
        draw_curve,
        link_error_curve,
        write_csv,
    )
    from kg_loaders.disk.writing import refuse_file, whole_file, write_text

    require_plotting()
    chosen_kinds = kinds.split(",")
    unknown = [kind for kind in chosen_kinds if kind not in KINDS]
    if unknown:
        raise ConfigError(f"--kinds {unknown[0]!r}: one or more of {', '.join(KINDS)}")
    if name not in ("dev", "test"):
        raise ConfigError(f"--set {name!r}: dev or test")
    written = run / "finetune.json"
    if not (run / "metrics.json").is_file():
        raise ConfigError(
            f"{run} is not a finished run of `kept finetune`: metrics.json is missing"
        )
    for file in FILES:
        refuse_file(output / file, force=force)
    assembled = assemble(FinetuneConfig.read(written, {}), trained=run)
    if weigh_links is not None:
        view = {**(assembled.config.view or {}), "weigh_links": weigh_links}
        assembled = assemble(FinetuneConfig.read(written, {"view": view}), trained=run)
    points = link_error_curve(
        assembled,
        name="dev" if name == "dev" else "test",
        kinds=[kind for kind in KINDS if kind in chosen_kinds],
        shares=_shares(shares),
        spread=spread,
    )
    output.mkdir(parents=True, exist_ok=True)
    table = as_markdown(points)
    markdown, values, picture = (output / file for file in FILES)
    write_text(markdown, table, force=force)
    write_csv(points, values, force=force)
    title = f"{assembled.config.task}, {name}, knowledge {assembled.config.knowledge}"
    with whole_file(picture, force=force) as part:
        draw_curve(points, title).savefig(part, format="png", dpi=120)
    echo(table, nl=False)
    echo(f"curve in {output}")


def _shares(text: str) -> list[float]:
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--shares {text!r}: comma-separated numbers, such as 0,0.5,1") from error
    if not all(0 <= share <= 1 for share in shares):
        raise ConfigError(f"--shares {text!r}: a share is from 0 to 1")
    return sorted(shares)
