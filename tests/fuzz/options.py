"""Command lines with odd values: whatever is given, a command ends with a message, never with 70.

Each line is one that ends at once, with one to three of its words replaced, and options added.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from typer.main import get_command

from tests.fuzz.openers import make_model, seeds_of, small_graph
from tests.fuzz.targets import Target

LINES = (
    "kg build x.tsv -o out", "kg info kg", "kg check kg", "kg export kg -o out.nt",
    "kg add kg x.tsv -o out", "kg query kg SELECT", "kg merge kg -o out.jsonl",
    "kg literals x.nt -o out.tsv", "link text.txt --kg kg -o out.jsonl", "link Paris --kg kg",
    "link index kg -o out", "link score gold.jsonl gold.jsonl",
    "link corrupt gold.jsonl -o out.jsonl", "link calibrate gold.jsonl --kg kg -o out",
    "kgc eval kg -m gone", "kgc predict Q1 P1 --kg kg -m gone",
    "kgc train kg -o out --epochs 1 --width 2",
    "pretrain -o out --kg kg --text gold.jsonl --host gone", "pretrain -o out --set a=1",
    "finetune -o out --train x.tsv --task relation", "predict model text --kg kg",
    "extend model --kg kg -o out", "convert kbert x.tsv -o out", "show Paris --kg kg -o out.html",
    "explore --kg kg -o out.html --text Paris --tokenizer model", "doctor kg",
    "audit --kg kg --triples test=x.tsv", "compare --task x --budget 0 -o out",
    "report out --task x", "curve model -o out", "probe model --kg kg",
    "ask Paris --kg kg --decoder model", "data list", "data check codex-s --data kg",
    "vectors train --kg kg --text gold.jsonl -o out", "check reading --methods nobody -o out",
    "demo -o out --config x.tsv",
)  # fmt: skip
ODD = (
    "", "-", "--", "-1", "0", "nan", "inf", "-inf", "1e999", "1e-320", "9" * 5000,
    "0x" + "f" * 5000, "٣", "1_0", "true", "null", "[", "{", "'", '"', "a\0b", "\udcff",
    "x" * 300, "x" * 5000, "a/" * 2000, "/dev/null", "/dev/zero", "pipe", "kg", "model", "x.tsv",
    "text.txt", "gold.jsonl", ".", "..", "/", "~", "a=b", "=", "a=", "=b", "a.b.c=1",
    "training.steps=" + "9" * 5000, "training.steps=0x" + "f" * 5000, "training=1", "graph=[]",
    "kg: 1", "org/repo", "é", "\x1b[2J", "-o", "--help", "--kg", "a,b,,c", ",",
)  # fmt: skip


def make_place(folder: Path) -> None:
    """A graph, a model, and small files of several kinds."""
    folder.mkdir()
    small_graph().save(folder / "kg")
    make_model(folder / "model")
    (folder / "x.tsv").write_text("Q1\tP1\tQ2\nQ2\tP1\tQ3\n")
    (folder / "x.nt").write_text('<a:a> <a:b> "2" .\n')
    (folder / "text.txt").write_text("Paris lies in France.\n")
    line = '{"id":"1","text":"Paris.","mentions":[{"start":0,"end":5,"entity":"Q0"}]}\n'
    (folder / "gold.jsonl").write_text(line)


def commands(
    group: Any = None, names: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the tree, with the words that call it."""
    from kept.apps.cli import app

    group = get_command(app) if group is None else group
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*names, name))
        yield (*names, name), command


def words_of(random: Random) -> list[str]:
    """A line with odd values in it."""
    words = random.choice(LINES).split()
    parameters = {names: command.params for names, command in commands()}
    begin = next(
        (n for n in sorted(parameters, key=len, reverse=True) if tuple(words[: len(n)]) == n), ()
    )
    options = [opt for p in parameters.get(begin, ()) for opt in p.opts if opt.startswith("--")]
    for _ in range(random.choice((1, 1, 2, 3))):
        if options and random.random() < 0.6:
            words += [random.choice(options), random.choice(ODD)]
        else:
            position = random.randrange(len(begin) or 1, max(len(words), len(begin) + 1))
            words[position : position + 1] = [random.choice(ODD)]
    return words


def _run(folder: Path, random: Random) -> None:
    from typer.testing import CliRunner

    from kept.apps.cli import app

    os.mkfifo(folder / "pipe")
    before, words = Path.cwd(), words_of(random)
    if "serve" in words or {"--port", "--open"} & {*words}:
        return
    os.chdir(folder)
    try:
        result = CliRunner().invoke(app, words)
    finally:
        os.chdir(before)
    is_clean = result.exit_code != 70 and isinstance(result.exception, (SystemExit, type(None)))
    assert is_clean, f"{[w[:80] for w in words]}: {result.exit_code}\n{result.output[-600:]}"


OPTIONS = {"options": Target(seeds_of(make_place), _run, spoils=False)}
