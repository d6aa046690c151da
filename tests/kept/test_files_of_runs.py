"""docs/reference/files-of-a-run.md against the folders that commands write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.apps.cli.training.guide import GUIDE
from tests.kept.lab.fitting.private_worlds import WORLDS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "files-of-a-run.md"
ROW = re.compile(r"^\| (\*?)(`.*?)\*? \|", re.MULTILINE)
EXPERIMENT = """\
name: tiny
task: {{task: mention, format: table, train: data.csv, kg: kg, link: true, host: {host},
       dev_share: 0.2, graph: {{max_words: 24, max_nodes: 48}},
       training: {{steps: 1, batch_size: 4, threads: 1}}}}
metric: accuracy
"""


def files_of(section: str) -> tuple[set[str], set[str]]:
    """The files that a section of the page names: those that are there always, and the others."""
    text = PAGE.read_text(encoding="utf-8").partition(f"## {section}")[2].partition("\n## ")[0]
    always: set[str] = set()
    at_times: set[str] = set()
    for star, names in ROW.findall(text):
        (at_times if star else always).update(re.findall(r"`([^`]+)`", names))
    return always, at_times


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, host: Path) -> Path:
    """A folder with a graph, labelled and linked texts, and a run of each command."""
    place = tmp_path_factory.mktemp("runs")
    kg, data = WORLDS["roles"](40, 0).write(place)
    texts = [row[0] for row in WORLDS["roles"](40, 0).rows]
    (place / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    (place / "tiny.yaml").write_text(EXPERIMENT.format(host=host), encoding="utf-8")
    small = ["--kg", str(kg), "--host", str(host)]
    steps = ["--steps", "1", "--batch-size", "4", "--threads", "1"]
    linked = str(place / "linked.jsonl")
    for line in (
        ["link", str(place / "texts.txt"), "--kg", str(kg), "-o", linked],
        ["finetune", str(data), "--method", "words", *small, *steps, "-o", str(place / "finetune")],
        ["pretrain", "--method", "kbert", *small, "--text", linked, *steps,
         "-o", str(place / "pretrain")],
        ["fit", str(data), *small, "--methods", "words", "--budget", "0.001", "--threads", "1",
         "-o", str(place / "fit")],
        ["compare", "--task", str(place / "tiny.yaml"), "--data", str(place), "--methods", "words",
         "--controls", "shuffled", "--seeds", "1", "-o", str(place / "compare")],
        ["kgc", "train", str(kg), "--scorer", "distmult", "--epochs", "1",
         "-o", str(place / "scorer")],
    ):  # fmt: skip
        done = CliRunner().invoke(app, line)
        assert done.exit_code == 0, f"kept {' '.join(line)}\n{done.output}"
    return place


@pytest.mark.parametrize(
    ("section", "folder"),
    [
        ("Graph:", "kg"), ("Model:", "finetune"), ("Model:", "pretrain"), ("Model:", "fit"),
        ("Scorer of triples:", "scorer"),
    ],
)  # fmt: skip
def test_the_page_has_each_file_of_a_folder(section: str, folder: str, place: Path) -> None:
    always, at_times = files_of(section)
    written = names_in(place / folder)
    assert written - always - at_times == set(), "files that the page lacks"
    assert always - written == set(), "files that were not written"


def test_the_page_has_each_file_of_a_comparison(place: Path) -> None:
    always, at_times = files_of("Comparison:")
    of_runs = {"predictions.jsonl", "log.jsonl", "curves.png"}
    always = {name.replace("NAME", "tiny") for name in always} - of_runs
    runs = {name for name in names_in(place / "compare") if re.fullmatch(r"[0-9a-f]{12}", name)}
    written = names_in(place / "compare") - runs
    assert written - always - at_times == set(), "files that the page lacks"
    assert always - written == set(), "files that were not written"
    assert len(runs) == 3
    for name in runs:
        assert names_in(place / "compare" / name) <= of_runs


@pytest.mark.parametrize("folder", ["finetune", "pretrain", "fit"])
def test_the_guide_of_a_run_names_each_of_its_files(folder: str, place: Path) -> None:
    guide = (place / folder / GUIDE).read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([^`]+)` \|", guide, re.MULTILINE))
    assert named == names_in(place / folder) - {GUIDE}
