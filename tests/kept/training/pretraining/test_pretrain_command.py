"""`kept pretrain`, from files on disk to a model, with a tiny random host."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file
from transformers import AutoTokenizer
from typer.testing import CliRunner, Result

from entity_linking.annotations import write_jsonl
from entity_linking.mentions import LinkedText
from kept.apps.cli import app
from kept.apps.cli.training.run import catch_interrupt
from kept.auto import AutoEncoder
from kept.methods import METHODS
from kept.objectives.model import OBJECTIVES, KnowledgeForPreTraining
from kept.training.log import read_log
from kg_loaders import KnowledgeGraph
from tests.kept.training.tiny_pretraining import write_everything


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    folder = tmp_path_factory.mktemp("pretraining")
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(write_everything(folder, small_graph)), encoding="utf-8")
    return path


def pretrain(*flags: object) -> Result:
    return CliRunner().invoke(app, ["pretrain", *map(str, flags)])


def same_weights(one: Path, other: Path) -> bool:
    first, second = (load_file(folder / "model.safetensors") for folder in (one, other))
    return list(first) == list(second) and all(first[n].equal(second[n]) for n in first)


def test_a_run_leaves_a_model_a_log_and_curves(
    config: Path, tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    result = pretrain("--config", config, "-o", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "step 8 of 8: finished" in result.stdout
    model = KnowledgeForPreTraining.from_pretrained(tmp_path / "run", graph=small_graph)
    assert model.encoder.entity_embeddings.sparse
    rows = read_log(tmp_path / "run/log.jsonl")
    assert [row["step"] for row in rows] == list(range(1, 9))
    assert list(rows[0]["losses"]) == ["word", "entity", "relation"]
    assert rows[0]["row_gradient_norm"] > 0
    assert (tmp_path / "run/curves.png").is_file()
    assert AutoTokenizer.from_pretrained(tmp_path / "run").mask_token == "[MASK]"


def test_stopped_by_its_budget_and_resumed_it_ends_the_same(config: Path, tmp_path: Path) -> None:
    assert pretrain("--config", config, "-o", tmp_path / "whole").exit_code == 0
    cut = pretrain("--config", config, "-o", tmp_path / "cut", "--budget-minutes", 1e-9)
    assert "step 1 of 8: stopped at the time budget" in cut.stdout
    assert not same_weights(tmp_path / "whole", tmp_path / "cut")
    resumed = pretrain("-o", tmp_path / "cut", "--resume", "--set", "training.budget_minutes=null")
    assert resumed.exit_code == 0, resumed.output
    assert "resumed from" in resumed.stderr
    assert same_weights(tmp_path / "whole", tmp_path / "cut")


def test_flags_alone_do(config: Path, tmp_path: Path) -> None:
    known: dict[str, Any] = yaml.safe_load(config.read_text())
    result = pretrain(
        "--kg", known["kg"], "--text", known["text"][0], "--host", known["host"], "--method",
        "colake", "--steps", 2, "--node-budget", 200, "-o", tmp_path,
        "--set", "training.objective_weights={word: 2}",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "pretrain.json").read_text())
    assert written["training"]["objective_weights"] == {"word": 2.0}


def test_a_second_stage_starts_from_the_first_and_trains_a_part(
    config: Path, tmp_path: Path
) -> None:
    first = pretrain("--config", config, "-o", tmp_path / "1", "--objective", "mlm")
    assert first.exit_code == 0, first.output
    rows = read_log(tmp_path / "1/log.jsonl")
    assert list(rows[0]["losses"]) == list(rows[0]["loss_gradient_norms"]) == ["mlm"]
    second = pretrain(
        "--config", config, "-o", tmp_path / "2", "--start-from", tmp_path / "1",
        "--objective", "mlm", "--objective", "nsp", "--set", "objectives.mlm.strategy=span",
        "--train-only", "tables", "--set", "training.objective_weights={nsp: 0.5}",
    )  # fmt: skip
    assert second.exit_code == 0, second.output
    written = json.loads((tmp_path / "2/pretrain.json").read_text())
    assert written["objectives"] == {"mlm": {"strategy": "span"}, "nsp": {}}
    row = read_log(tmp_path / "2/log.jsonl")[-1]
    assert row["total_loss"] == pytest.approx(row["losses"]["mlm"] + 0.5 * row["losses"]["nsp"])
    weights = [load_file(tmp_path / stage / "model.safetensors") for stage in ("1", "2")]
    moved = {
        name
        for name, value in weights[0].items()
        if name in weights[1] and not value.equal(weights[1][name])
    }
    assert {name.split(".")[1] for name in moved if name.startswith("encoder.")} == {
        "kind_embeddings", "entity_embeddings", "relation_embeddings",
    }  # fmt: skip


def test_the_host_alone_needs_neither_links_nor_a_graph(config: Path, tmp_path: Path) -> None:
    known: dict[str, Any] = yaml.safe_load(config.read_text())
    text = tmp_path / "plain.jsonl"
    write_jsonl([LinkedText("the people of the old capital", ())] * 4, text)
    flags = ["--text", text, "--host", known["host"], "--steps", 2, "--batch-size", 2]
    result = pretrain("--method", "none", *flags, "-o", tmp_path / "none")
    assert result.exit_code == 0, result.output
    log = read_log(tmp_path / "none/log.jsonl")
    assert [list(row["losses"]) for row in log] == [["mlm"]] * 2
    assert list(AutoEncoder.from_pretrained(tmp_path / "none").encoder.parameters())
    with_graph = pretrain("--method", "none", "--kg", known["kg"], *flags, "-o", tmp_path / "kg")
    assert with_graph.exit_code == 0, with_graph.output
    for method in ("colake", "kepler"):
        result = pretrain("--method", method, "--kg", known["kg"], *flags, "-o", tmp_path / method)
        assert result.exit_code == 1
        assert "none of the 0 links of 4 texts" in " ".join(result.stderr.split())


def test_help_names_every_method_and_objective() -> None:
    output = " ".join(pretrain("--help").stdout.replace("│", " ").split())
    assert ", ".join(METHODS) in output
    assert ", ".join(OBJECTIVES) in output


def test_a_mismatch_on_resume_is_named_and_the_run_keeps_its_configuration(
    config: Path, tmp_path: Path
) -> None:
    pretrain("--config", config, "-o", tmp_path, "--budget-minutes", 1e-9)
    before = (tmp_path / "pretrain.json").read_text()
    result = pretrain("--resume", "-o", tmp_path, "--lr", 0.5, "--set", "graph.max_neighbours=2")
    assert result.exit_code == 1
    assert "learning_rate: 0.0001, now 0.5" in result.stderr.replace("\n", " ")
    assert "data: fingerprint" in result.stderr
    assert (tmp_path / "pretrain.json").read_text() == before


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--steps", 3], "kg: required"),
        (["--set", "seed"], "write NAME=VALUE"),
        (["--set", "training.seed=["], "is not a YAML value"),
        (["--set", "training.sed=1"], "training.sed: unknown field"),
        (["--skip-damaged"], "goes with --resume"),
        (["--config", "none.yaml"], "none.yaml"),
        (["--method", "colak"], "method: "),
    ],
)
def test_faults_end_in_one_message(flags: list[object], message: str, tmp_path: Path) -> None:
    result = pretrain(*flags, "-o", tmp_path / "run")
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert not (tmp_path / "run").exists()


def test_missing_graphs_and_texts_are_named(config: Path, tmp_path: Path) -> None:
    for flag, value in (("--kg", tmp_path / "no-kg"), ("--text", tmp_path / "no-text.jsonl")):
        result = pretrain("--config", config, "-o", tmp_path / "run", flag, value)
        assert result.exit_code == 1
        assert value.name in result.stderr.replace("\n", "")


def test_the_first_signal_asks_to_stop_and_the_second_is_as_before() -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: received.append(number))
    try:
        with catch_interrupt() as stop:
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop == [signal.SIGTERM]
            assert received == []
            os.kill(os.getpid(), signal.SIGTERM)
        assert (stop, received) == ([signal.SIGTERM], [signal.SIGTERM])
    finally:
        signal.signal(signal.SIGTERM, before)


# ---- one copy of the weights -------------------------------------------------------------------
def n_bytes(folder: Path, *names: str) -> int:
    """Bytes on the disk of files with such names below `folder`, each inode once."""
    files = {path.stat().st_ino: path for name in names for path in folder.rglob(name)}
    return sum(path.stat().st_size for path in files.values())


@pytest.mark.parametrize("averaging", [None, "{steps: all, publish: true}"])
def test_a_finished_run_holds_its_weights_once_and_is_known_to_be_finished(
    config: Path, tmp_path: Path, averaging: str | None
) -> None:
    """No second weights, no optimiser; --resume changes nothing, damage is found."""
    more = [] if averaging is None else ["--set", f"training.averaging={averaging}"]
    flags = ("--config", config, "-o", tmp_path, "--set", "training.checkpoint_steps=3", *more)
    assert pretrain(*flags).exit_code == 0
    weights = tmp_path / "model.safetensors"
    assert n_bytes(tmp_path, "*.safetensors") == weights.stat().st_size
    (left,) = (tmp_path / "checkpoints").iterdir()
    assert sorted(path.name for path in left.iterdir()) == ["checksums.json", "state.json"]
    before = load_file(weights)
    for skip in ([], ["--skip-damaged"]):
        again = pretrain("-o", tmp_path, "--resume", *skip)
        assert again.exit_code == 0, again.output
        assert "step 8 of 8: finished" in again.stdout
        after = load_file(weights)
        assert all(before[name].equal(after[name]) for name in before)
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    damaged = pretrain("-o", tmp_path, "--resume")
    assert damaged.exit_code == 1
    assert "model.safetensors" in damaged.stderr


def test_a_finished_run_of_a_constant_rate_goes_on(config: Path, tmp_path: Path) -> None:
    """Its optimiser stays; the weights of its last checkpoint are the published file."""
    constant = ("--set", "training.schedule=constant", "--set", "training.warmup_steps=0")
    flags = ("--config", config, *constant, "--set", "training.epochs=null")
    for name, steps in (("whole", 10), ("cut", 8)):
        done = pretrain(*flags, "--steps", steps, "-o", tmp_path / name)
        assert done.exit_code == 0, done.output
    cut = tmp_path / "cut"
    weights = cut / "model.safetensors"
    assert n_bytes(cut, "model.safetensors") == weights.stat().st_size
    assert n_bytes(cut, "optimiser.safetensors")
    longer = pretrain("-o", cut, "--resume", "--set", "training.steps=10")
    assert longer.exit_code == 0, longer.output
    assert same_weights(tmp_path / "whole", cut)
