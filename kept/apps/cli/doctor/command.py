"""`kept doctor`: what is installed here, what is missing, and what a task would need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kept.apps.cli.terminal import echo
from kept.help_texts import EXPERIMENT_DATA

if TYPE_CHECKING:
    from kept.apps.cli.doctor.findings import Finding

MARKS = {"ok": "ok", "note": "--", "missing": "MISSING", "faulty": "FAULTY"}


def doctor(
    task: Annotated[
        str | None,
        typer.Argument(help="An experiment of `kept compare` whose files are looked for."),
    ] = None,
    data: Annotated[Path | None, typer.Option(envvar="KEPT_DATA", help=EXPERIMENT_DATA)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check the installation: what is there, what is missing and for what, and the machine.

    Nothing is installed, downloaded or written. Exit code 1 if something that kept or the task
    needs is missing or damaged. An extra that is not installed is no fault.

    Example: kept doctor wiki80
    """
    import dataclasses
    import json

    from kept.apps.cli.doctor.findings import all_findings

    findings = all_findings(task, data)
    wrong = [finding for finding in findings if finding.state in ("missing", "faulty")]
    if as_json:
        echo(
            json.dumps(
                [dataclasses.asdict(each) for each in findings], ensure_ascii=False, indent=1
            )
        )
    else:
        _print(findings)
        echo(f"{len(wrong)} of {len(findings)} things need you" if wrong else "all is well")
    if wrong:
        raise typer.Exit(1)


def _print(findings: list[Finding]) -> None:
    group = ""
    for each in findings:
        if each.group != group:
            group = each.group
            echo(("" if each is findings[0] else "\n") + group)
        colour = "red" if each.state in ("missing", "faulty") else None
        echo(f"  {MARKS[each.state]:8}{each.name:24}  {each.says}", fg=colour)
        if each.remedy:
            echo(f"          {'':24}  → {each.remedy}")
