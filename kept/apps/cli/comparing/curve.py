"""`kept curve`: a fine-tuned model's score against the share of wrong links."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kept.apps.cli.declared import argument, option, required, switch, takes
from kept.apps.cli.terminal import echo
from kept.errors import ConfigError
from kept.help_texts import FORCE_FILES

FILES = ("curve.md", "curve.csv", "curve.png")


@dataclass(frozen=True, kw_only=True)
class CurveOptions:
    """What the command is given; a field is an option."""

    run: Path = argument("Folder of a finished run of `kept finetune`.")
    output: Path = required("Folder for curve.csv, curve.md and curve.png.", "--output", "-o")
    shares: str = option(
        "Shares of links to corrupt, separated by commas.", default="0,0.1,0.25,0.5,1"
    )
    kinds: str = option(
        "How links are corrupted, separated by commas: drop (removed), swap (replaced "
        "by a likely error), random (replaced by any entity).",
        default="drop,swap,random",
    )
    name: str = option("Examples to evaluate on: dev or test.", "--set", default="dev")
    spread: float | None = option(
        "Give links the confidences of a simulated calibrated linker. At 1 they "
        "separate right from wrong links well, at 10 hardly (default: links keep their "
        "confidence).",
        bounds=(1e-3, 1e3),
    )
    weigh_links: bool | None = option(
        "Whether links count by their confidence in the model (default: as in training)."
    )
    force: bool = switch(FORCE_FILES)


@takes(CurveOptions)
def curve(options: CurveOptions) -> None:
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
    chosen_kinds = options.kinds.split(",")
    unknown = [kind for kind in chosen_kinds if kind not in KINDS]
    if unknown:
        raise ConfigError(f"--kinds {unknown[0]!r}: one or more of {', '.join(KINDS)}")
    if options.name not in ("dev", "test"):
        raise ConfigError(f"--set {options.name!r}: dev or test")
    written = options.run / "finetune.json"
    if not (options.run / "metrics.json").is_file():
        raise ConfigError(
            f"{options.run} is not a finished run of `kept finetune`: metrics.json is missing"
        )
    for file in FILES:
        refuse_file(options.output / file, force=options.force)
    assembled = assemble(FinetuneConfig.read(written, {}), trained=options.run)
    if options.weigh_links is not None:
        view = {**(assembled.config.view or {}), "weigh_links": options.weigh_links}
        assembled = assemble(FinetuneConfig.read(written, {"view": view}), trained=options.run)
    points = link_error_curve(
        assembled,
        name="dev" if options.name == "dev" else "test",
        kinds=[kind for kind in KINDS if kind in chosen_kinds],
        shares=_shares(options.shares),
        spread=options.spread,
    )
    options.output.mkdir(parents=True, exist_ok=True)
    table = as_markdown(points)
    markdown, values, picture = (options.output / file for file in FILES)
    write_text(markdown, table, force=options.force)
    write_csv(points, values, force=options.force)
    title = f"{assembled.config.task}, {options.name}, knowledge {assembled.config.knowledge}"
    with whole_file(picture, force=options.force) as part:
        draw_curve(points, title).savefig(part, format="png", dpi=120)
    echo(table, nl=False)
    echo(f"curve in {options.output}")


def _shares(text: str) -> list[float]:
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--shares {text!r}: comma-separated numbers, such as 0,0.5,1") from error
    if not all(0 <= share <= 1 for share in shares):
        raise ConfigError(f"--shares {text!r}: a share is from 0 to 1")
    return sorted(shares)
