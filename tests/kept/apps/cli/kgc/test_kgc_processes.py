"""`kept kgc eval` over two processes prints what one prints."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import numpy as np
import pytest

from tests.forked import Forked
from tests.kept.apps.cli.kgc.kgc_toy import done, kept

N = 40
SCORERS = {
    "complex": (("--epochs", 3, "--width", 8), ("--negatives", ".")),
    "rgcn": (("--epochs", 1, "--width", 8), ("--directions", "head,relation,tail", "--pooled")),
    "nbfnet": (("--epochs", 1, "--width", 8), ()),
    "simkgc": (("--epochs", 1, "--batch-size", 16), ("--json",)),
}
"""An embedding scorer, a network whose states are kept, one over paths, and one of texts: how it is
trained, and what is asked of it."""


def by_two(*words: object) -> list[tuple[int | None, str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    started = [
        Forked(["-m", "kept", "kgc", *words], shared | {"RANK": str(i), "LOCAL_RANK": str(i)})
        for i in range(2)
    ]
    outputs = [process.communicate()[0] for process in started]
    return [(each.returncode, output) for each, output in zip(started, outputs, strict=True)]


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More questions than a block holds; some names are the same, so that scores are."""
    folder, draws = tmp_path_factory.mktemp("shared") / "questions", np.random.default_rng(3)
    folder.mkdir()
    pairs = np.unique(draws.integers(0, [N, 3, N], (2500, 3)), axis=0)
    draws.shuffle(pairs)
    lines = [f"e{head:02}\tr{kind}\te{tail:02}\n" for head, kind, tail in pairs.tolist()]
    parts = {"train": 900, "valid": 930, "test": 1330, "valid_negatives": 1430,
             "test_negatives": 1460}  # fmt: skip
    for (name, end), first in zip(parts.items(), (0, *parts.values()), strict=False):
        (folder / f"{name}.txt").write_text("".join(lines[first:end]))
    texts = [f"e{i:02}\tnumber w{i % 13}\n" for i in range(N)]
    (folder / "entity2text.txt").write_text("".join(texts))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", SCORERS)
def test_two_processes_print_what_one_prints(
    name: str, questions: Path, host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how, options = SCORERS[name]
    read = ("--host", host) if name == "simkgc" else ()
    done("train", questions, "--scorer", name, *how, *read, "-o", tmp_path / "model")
    monkeypatch.chdir(questions)
    monkeypatch.setenv("COLUMNS", "100")
    words = ("eval", questions, "-m", tmp_path / "model", *options)
    (code, output), (other, silent) = by_two(*words)
    assert (code, other, silent) == (0, 0, ""), output + silent
    assert output == done(*words).output
    if "--json" in options:
        assert json.loads(output)["n_scored"] == 800


def test_other_commands_of_the_group_are_one_process(
    questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    refusal = kept("train", questions, "-o", questions / "model")
    assert refusal.exit_code == 1
    assert "kept kgc train is one process, and a launcher has started 2" in refusal.output
    assert "kgc eval" in refusal.output.partition("Commands for several processes")[2]
