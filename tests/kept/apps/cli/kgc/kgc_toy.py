"""`kept kgc` in this process, and a chain of numbers to ask it about."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

from kept.apps.cli import app

N = 14


def kept(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["kgc", *map(str, arguments)])


def done(*arguments: object) -> Result:
    result = kept(*arguments)
    assert result.exit_code == 0, result.output
    return result


def write_chain(folder: Path, letter: str) -> Path:
    """A chain with its inverse; names are numbers, so that text tells the order."""
    folder.mkdir()
    lines = [f"{letter}{i:02}\tnext\t{letter}{i + 1:02}" for i in range(N)]
    lines += [f"{letter}{i + 1:02}\tprevious\t{letter}{i:02}" for i in range(N)]
    test, valid = [lines[3], lines[N + 8]], [lines[6], lines[N + 1], lines[10]]
    train = [line for line in lines if line not in test + valid]
    for name, part in {"train": train, "valid": valid, "test": test}.items():
        (folder / f"{name}.txt").write_text("\n".join(part) + "\n")
    texts = [f"{letter}{i:02}\tnumber w{i}" for i in range(N + 1)]
    (folder / "entity2text.txt").write_text("\n".join(texts) + "\n")
    return folder
