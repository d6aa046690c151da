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
def runs_folder(tmp_path_factory: pytest.TempPathFactory, host: Path) -> Path:
    """A folder with a graph, labelled and linked texts, and a run of each command."""
    folder = tmp_path_factory.mktemp("runs")
    kg, data = WORLDS["roles"](40, 0).write(folder)
    texts = [row[0] for row in WORLDS["roles"](40, 0).rows]
    (folder / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    (folder / "tiny.yaml").write_text(EXPERIMENT.format(host=host), encoding="utf-8")
    small = ["--kg", str(kg), "--host", str(host)]
    steps = ["--steps", "1", "--batch-size", "4", "--threads", "1"]
    linked = str(folder / "linked.jsonl")
    for line in (
        ["link", str(folder / "texts.txt"), "--kg", str(kg), "-o", linked],
        ["finetune", str(data), "--method", "words", *small, *steps,
         "-o", str(folder / "finetune")],
        ["pretrain", "--method", "kbert", *small, "--text", linked, *steps,
         "-o", str(folder / "pretrain")],
        ["fit", str(data), *small, "--methods", "words", "--budget", "0.001", "--threads", "1",
         "-o", str(folder / "fit")],
        ["compare", "--task", str(folder / "tiny.yaml"), "--data", str(folder),
         "--methods", "words",
         "--controls", "shuffled", "--seeds", "1", "-o", str(folder / "compare")],
        ["kgc", "train", str(kg), "--scorer", "distmult", "--epochs", "1",
         "-o", str(folder / "scorer")],
    ):  # fmt: skip
        done = CliRunner().invoke(app, line)
        assert done.exit_code == 0, f"kept {' '.join(line)}\n{done.output}"
    return folder


@pytest.mark.parametrize(
    ("section", "folder"),
    [
        ("Graph:", "kg"), ("Model:", "finetune"), ("Model:", "pretrain"), ("Model:", "fit"),
        ("Scorer of triples:", "scorer"),
    ],
)  # fmt: skip
def test_the_page_has_each_file_of_a_folder(section: str, folder: str, runs_folder: Path) -> None:
    always, at_times = files_of(section)
    written = names_in(runs_folder / folder)
    assert written - always - at_times == set(), "files that the page lacks"
    assert always - written == set(), "files that were not written"


def test_the_page_has_each_file_of_a_comparison(runs_folder: Path) -> None:
    always, at_times = files_of("Comparison:")
    of_runs = {"predictions.jsonl", "log.jsonl", "curves.png"}
    always = {name.replace("NAME", "tiny") for name in always} - of_runs
    runs = {
        name for name in names_in(runs_folder / "compare") if re.fullmatch(r"[0-9a-f]{12}", name)
    }
    written = names_in(runs_folder / "compare") - runs
    assert written - always - at_times == set(), "files that the page lacks"
    assert always - written == set(), "files that were not written"
    assert len(runs) == 3
    for name in runs:
        assert names_in(runs_folder / "compare" / name) <= of_runs


@pytest.mark.parametrize("folder", ["finetune", "pretrain", "fit"])
def test_the_guide_of_a_run_names_each_of_its_files(folder: str, runs_folder: Path) -> None:
    guide = (runs_folder / folder / GUIDE).read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([^`]+)` \|", guide, re.MULTILINE))
    assert named == names_in(runs_folder / folder) - {GUIDE}
