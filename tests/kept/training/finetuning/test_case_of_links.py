"""`--case`: one policy for the links of a training and for all that its run reads later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from kept.apps.cli import app
from kept.apps.explorer.opening import open_explorer
from kept.apps.explorer.questions import Question
from kept.auto import AutoEncoder
from kept.errors import CheckpointError, ConfigError
from kept.training.finetuning.predictor import Predictor
from kg_loaders import KnowledgeGraph
from tests.kept.training.tiny_pretraining import write_everything

LINKING = (
    "link", "link index", "link train", "link train-encoder", "link calibrate", "finetune", "fit",
    "compare", "predict", "ask", "explore", "serve", "show",
)  # fmt: skip


def kept(*flags: object) -> Result:
    return CliRunner().invoke(app, [*map(str, flags)], env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    """A graph, a host, and two runs: one that ignores case, one with the default."""
    folder = tmp_path_factory.mktemp("case")
    (folder / "pretrain.yaml").write_text(yaml.safe_dump(write_everything(folder, small_graph)))
    lines = [f"{i % 2}\t{'Paris' if i % 3 else 'paris'} is old {i}" for i in range(40)]
    (folder / "texts.tsv").write_text("\n".join(lines), encoding="utf-8")
    for name, flags in (("ignoring", ("--case", "insensitive")), ("default", ())):
        done = kept(
            "finetune", "--task", "classification", "--format", "tsv", "--train",
            folder / "texts.tsv", "--set", "dev_share=0.4", "--method", "kbert", "--host",
            folder / "host", "--kg", folder / "kg", "--link", "--steps", 1, "--batch-size", 4,
            "--threads", 1, "--device", "cpu", "-o", folder / name, *flags,
        )  # fmt: skip
        assert done.exit_code == 0, done.output
    return folder


@pytest.mark.parametrize("command", LINKING)
def test_every_command_that_links_takes_it(command: str) -> None:
    assert "--case" in kept(*command.split(), "--help").output


def test_a_wrong_policy_is_refused_before_anything_is_loaded(world: Path) -> None:
    done = kept("show", "Paris", "--kg", world / "kg", "--case", "none")
    assert done.exit_code == 1
    assert "--case is 'none'; choose one of smart, sensitive, insensitive" in done.stderr


def test_a_run_is_predicted_by_the_case_of_its_training(world: Path) -> None:
    saved = json.loads((world / "ignoring/finetune.json").read_text())
    assert saved["case"] == "insensitive"
    for name, case, n_links in (
        ("ignoring", None, 1), ("default", None, 0), ("ignoring", "smart", 0),
        ("default", "insensitive", 1),
    ):  # fmt: skip
        predictor = Predictor.from_pretrained(world / name, case=case)  # type: ignore[arg-type]
        explained = predictor.explain("paris is old", world / "kg")
        assert len([one for one in explained.influences if one.kind == "link"]) == n_links, name


def test_the_command_predicts_by_it_too(world: Path) -> None:
    for name, flags, is_read in (
        ("ignoring", (), True), ("default", (), False),
        ("default", ("--case", "insensitive"), True), ("ignoring", ("--case", "smart"), False),
    ):  # fmt: skip
        done = kept(
            "predict", world / name, "paris is old", "--kg", world / "kg", "--explain", *flags
        )
        assert done.exit_code == 0, done.output
        assert ("the model got nothing of the graph" not in done.output) is is_read


def test_a_run_is_encoded_by_the_case_of_its_training(world: Path, tmp_path: Path) -> None:
    encoder = AutoEncoder.from_pretrained(world / "ignoring")
    (text,) = encoder.encode("paris is old", kg=world / "kg").texts
    assert [link.entity for link in text.links] == ["Q90"]
    encoder.save_pretrained(tmp_path / "saved")
    assert AutoEncoder.from_pretrained(tmp_path / "saved").case == "insensitive"
    (text,) = (
        AutoEncoder.from_pretrained(world / "ignoring", case="smart")
        .encode("paris is old", kg=world / "kg")
        .texts
    )
    assert text.links == ()


def test_a_run_is_explored_by_the_case_of_its_training(world: Path) -> None:
    def n_links(*runs: str, case: str | None = None) -> int:
        explorer = open_explorer(
            world / "kg", [world / run for run in runs], tokenizer=str(world / "host"),
            case=case,  # type: ignore[arg-type]
        )  # fmt: skip
        return len(explorer.link(Question("paris is old"))["links"])

    assert n_links("ignoring") == 1
    assert n_links("default") == 0
    assert n_links() == 0
    with pytest.raises(ConfigError, match="say which with --case"):
        n_links("ignoring", "default")
    assert n_links("ignoring", "default", case="insensitive") == 1


def test_a_policy_that_no_run_writes_is_refused(world: Path, tmp_path: Path) -> None:
    AutoEncoder.from_pretrained(world / "ignoring").save_pretrained(tmp_path / "saved")
    path = tmp_path / "saved/encoder.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"case": "loud"}))
    with pytest.raises(CheckpointError):
        AutoEncoder.from_pretrained(tmp_path / "saved")


def test_a_task_that_links_nothing_refuses_it(tmp_path: Path) -> None:
    done = kept("compare", "--task", "wiki80", "--case", "insensitive", "-o", tmp_path / "runs")
    assert done.exit_code == 1
    assert "--case would change nothing" in " ".join(done.stderr.split())
