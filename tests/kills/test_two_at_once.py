"""Two processes with one output: what one of them wrote is there whole, what both add is not lost.

A pair of commands starts at the same moment. Each ends with 0, or with a message that another
process, or what is there, is in its way; never with a fault.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kept.linking.index import LinkIndex
from kg_loaders import KnowledgeGraph
from tests.kills.kill_commands import (
    BUILD,
    COMMANDS,
    KGC,
    LINK,
    VECTORS,
    Invocation,
    _timeless,
    content,
    places_of,
)
from tests.kills.kill_harness import Ended, run_child

Words = Sequence[str]
IN_THE_WAY = re.compile(r"another process|exists|is in use|--resume")
GRAPH, NOTES = ("--kg", "WORLD/kg"), "WORLD/notes.txt"
LEAKS = ("audit", "--triples", "train=WORLD/clean.tsv", "--triples", "test=WORLD/clean.tsv")
INDEX = ("link", "index", "WORLD/kg", "-o", "OUT/index")
AGAIN = ("--force",)
SAME: dict[str, Words] = {
    **{name: command.arguments for name, command in COMMANDS.items() if name != "fit"},
    "export tsv": ("kg", "export", "WORLD/kg", "-o", "OUT/x.tsv"),
    "export nt": ("kg", "export", "WORLD/kg", "-o", "OUT/x.nt"),
    "merge": ("kg", "merge", "WORLD/kg", "-o", "OUT/pairs.jsonl"),
    "show": ("show", "Paris", *GRAPH, "--tokenizer", "WORLD/host", "-o", "OUT/x.html"),
    "explore": (
        "explore", *GRAPH, "--text", NOTES, "--tokenizer", "WORLD/host", "-o", "OUT/x.html"
    ),
    "corrupt": ("link", "corrupt", "WORLD/links.jsonl", "--drop", "0.5", "-o", "OUT/x.jsonl"),
    "audit": (*LEAKS, "-o", "OUT/x.md"),
    "index": INDEX,
    "index --force": (*INDEX, *AGAIN),
    "link --force": (*LINK, *AGAIN),
    "kgc train --force": (*KGC, *AGAIN),
    "vectors --resume": (*VECTORS, "--resume"),
    "beyond memory": (*BUILD, "--beyond-memory", "256M"),
}  # fmt: skip
"""One line, given twice; the files of a fit name its folder, so that two folders differ."""


def at_once(first: Words, second: Words, world: Path, out: Path) -> list[Ended]:
    """How two commands end that start at the same time."""
    places = places_of(world, out)
    works = (Invocation(first, places), Invocation(second, places))
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda work: run_child(work, out), works))


def require_in_order(results: Sequence[Ended], out: Path) -> None:
    """Each ended well or was refused, one at least did, and nothing is left of either."""
    for each in results:
        assert each.code in (0, 1), each.output[-2000:]
        assert "Traceback" not in each.output, each.output[-2000:]
        if each.code:
            assert IN_THE_WAY.search(each.output), each.output[-2000:]
    assert 0 in [each.code for each in results]
    hidden = [str(path) for path in out.rglob("*") if path.name.startswith(".")]
    assert not hidden, hidden


def rows_of(folder: Path) -> str:
    """The runs of a comparison in the order of their names, without times."""
    lines = (folder / "runs/runs.jsonl").read_text().splitlines()
    return json.dumps(sorted(map(str, (_timeless(json.loads(line)) for line in lines))))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAME)
def test_one_line_twice(name: str, killing: Path, tmp_path: Path) -> None:
    command = COMMANDS.get(name, COMMANDS["build"])
    before = command.before if name in COMMANDS else COMMANDS["build"].before
    right, out = tmp_path / "right", tmp_path / "out"
    for folder in (right, out):
        folder.mkdir()
        before(killing, folder)
    alone = run_child(Invocation(SAME[name], places_of(killing, right)), right)
    assert alone.code == (1 if name == "audit" else 0), alone.output
    results = at_once(SAME[name], SAME[name], killing, out)
    if name != "audit":  # which ends with 1 where it finds a leak
        require_in_order(results, out)
    ours, theirs = content(out), content(right)
    if name == "compare":  # its processes share the runs: which one is done first differs
        ours["runs/runs.jsonl"] = rows_of(out)
        theirs["runs/runs.jsonl"] = rows_of(right)
    assert not {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)}


# ---- what two processes add ----------------------------------------------------------------------
def written(folder: Path) -> dict[str, Words]:
    """Two files of triples about other entities, and the names of these."""
    for name in ("one", "two"):
        lines = [f"{name}{i}\tr\t{name}{i + 1}" for i in range(200)]
        (folder / f"{name}.tsv").write_text("\n".join(lines))
        (folder / f"{name}.names.tsv").write_text(f"{name}0\tName of {name}\n")
    return {
        name: (f"OUT/{name}.tsv", "--labels", f"OUT/{name}.names.tsv") for name in ("one", "two")
    }


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(3))
def test_two_that_add_to_a_graph(attempt: int, killing: Path, tmp_path: Path) -> None:
    sources = written(tmp_path)
    shutil.copytree(killing / "kg", tmp_path / "kg")
    lines = [("kg", "add", "OUT/kg", *words) for words in sources.values()]
    results = at_once(*lines, killing, tmp_path)
    require_in_order(results, tmp_path)
    graph = KnowledgeGraph.open(tmp_path / "kg")
    kept = [name for name, each in zip(sources, results, strict=True) if each.code == 0]
    assert [name for name in sources if f"{name}0" in graph.entities] == kept
    assert graph.n_triples == KnowledgeGraph.open(killing / "kg").n_triples + 200 * len(kept)


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(3))
def test_two_that_add_to_an_index(attempt: int, killing: Path, tmp_path: Path) -> None:
    for name, words in written(tmp_path).items():
        build = Invocation(("kg", "build", *words, "-o", f"OUT/{name}"), {"OUT": tmp_path})
        assert run_child(build, tmp_path).code == 0
    places = {"OUT": tmp_path, "WORLD": killing}
    assert run_child(Invocation(INDEX, places), tmp_path).code == 0
    lines = [("link", "index", f"OUT/{n}", "--add-to", "OUT/index") for n in ("one", "two")]
    results = at_once(*lines, killing, tmp_path)
    require_in_order(results, tmp_path)
    index = LinkIndex.open(tmp_path / "index").names
    names = index.names(range(index.n_names))
    kept = [n for n, each in zip(("one", "two"), results, strict=True) if each.code == 0]
    assert [n for n in ("one", "two") if f"Name of {n}" in names] == kept


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(3))
def test_two_that_fill_a_cache(attempt: int, killing: Path, tmp_path: Path) -> None:
    line = ("link", NOTES, *GRAPH, "--cache", "OUT/cache", "-o")
    results = at_once((*line, "OUT/1.jsonl"), (*line, "OUT/2.jsonl"), killing, tmp_path)
    assert [each.code for each in results] == [0, 0], [each.output for each in results]
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()
    assert (tmp_path / "1.jsonl").read_bytes() == (killing / "links.jsonl").read_bytes()


@pytest.mark.slow
def test_two_that_set_lines_aside_in_one_file(killing: Path, tmp_path: Path) -> None:
    line = ("kg", "build", "WORLD/t.tsv", "--quarantine", "OUT/bad", "-o")
    results = at_once((*line, "OUT/1"), (*line, "OUT/2"), killing, tmp_path)
    require_in_order(results, tmp_path)
    assert (tmp_path / "bad").read_text() == "broken\n"
