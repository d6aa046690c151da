"""Several processes train what one trains."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch import Tensor
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.auto import AutoEncoder
from kept.batches import KnowledgeBatch
from kept.batches.shares import share_of
from kept.layers.means import counted_by, mean_of
from kept.training.log import read_log
from kept.training.pretraining.assembly import assemble
from kept.training.pretraining.config import PretrainConfig
from kg_loaders import KnowledgeGraph
from tests.forked import Forked
from tests.kept.rounding import require_same_training
from tests.kept.training.tiny_pretraining import write_everything
from tests.kept.training.train_processes import run, run_all

SCRIPT = Path(__file__).with_name("train_processes.py")
STEPS = {"steps": 3, "batch_size": 23, "checkpoint_steps": 2, "gradient_norms_every": 1}
"""Of 24 texts: the second batch has one, and nothing for a second process."""
PRETRAINED: dict[str, dict[str, Any]] = {
    "colake": {},
    "ernie": {},
    "knowbert": {},
    "kbert": {},
    "kepler": {},
    "kadapter": {},
    "luke": {},
}
RATES = {"rate": 1e-4, "highest_rate": 1e-3}
"""Those of a configuration that names none; the higher is that of tables of entities."""
PARTS = {"accumulate": 2, "unfreezing": {"order": "gradual", "every": 1}}
FINETUNED: dict[str, dict[str, Any]] = {
    "tagging": {"format": "conll", "train": "words.conll"},
    "multiple_choice": {"format": "copa", "train": "choices.jsonl"},
    "classification": {
        "format": "tsv", "train": "texts.tsv",
        "long": "windows", "graph": {"max_words": 7, "max_nodes": 14},
    },
}  # fmt: skip
RUNS = [*PRETRAINED, *FINETUNED]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def start(command: Sequence[str], n: int) -> list[Forked]:
    """As torchrun does, without its second of start and those of imports."""
    shared = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(n),
    }
    return [
        Forked(command, shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(n)
    ]


def finish(started: Sequence[Forked]) -> list[tuple[int | None, str]]:
    outputs = [process.communicate()[0] for process in started]
    return [(each.returncode, output) for each, output in zip(started, outputs, strict=True)]


def runs_of(fields: dict[str, Any], folder: Path) -> dict[str, dict[str, Any]]:
    words = "\n\n".join(f"the O\nParis B-x\nof O\nFrance B-y\n{i} O" for i in range(8))
    (folder / "words.conll").write_text(words, encoding="utf-8")
    texts = [f"{'on'[i % 2]}\t{'old' if i % 2 else 'near'} Paris is {i}" for i in range(25)]
    (folder / "texts.tsv").write_text("\n".join(texts), encoding="utf-8")
    choices = [
        {"premise": f"the old {i}", "choice1": "Paris is", "choice2": "near", "question": "cause",
         "label": i % 2, "idx": i}
        for i in range(9)
    ]  # fmt: skip
    rows = "\n".join(map(json.dumps, choices))
    (folder / "choices.jsonl").write_text(rows, encoding="utf-8")
    training = fields["training"] | STEPS
    runs: dict[str, dict[str, Any]] = {
        name: fields | {"method": name, "training": training} | changes
        for name, changes in PRETRAINED.items()
    }
    for name, files in FINETUNED.items():
        parts = PARTS if name == "classification" else {}
        runs[name] = {
            "task": name, **files, "train": str(folder / files["train"]),
            "method": "colake", "host": fields["host"], "kg": fields["kg"], "dev_share": 0.1,
            "knowledge": "off", "training": training | {"batch_size": 3} | parts,
        }  # fmt: skip
    return runs


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    """Every run, by this process alone and by two."""
    folder = tmp_path_factory.mktemp("processes")
    runs = runs_of(write_everything(folder, small_graph), folder)
    (folder / "runs.json").write_text(json.dumps(runs), encoding="utf-8")
    started = start([str(SCRIPT), str(folder / "runs.json")], 2)
    run_all(folder / "runs.json")
    for code, output in finish(started):
        assert code == 0, output
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_two_processes_end_with_the_weights_of_one(name: str, trained: Path) -> None:
    one, two = (load_file(trained / f"{name}-{n}/model.safetensors") for n in (1, 2))
    before = load_file(trained / f"{name}-1/checkpoints/step-00000002/model.safetensors")
    assert one.keys() == two.keys()
    assert any(not torch.equal(one[key], before[key]) for key in one)
    require_same_training(two, one, n_steps=3, **RATES)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_their_log_is_that_of_one(name: str, trained: Path) -> None:
    one, two = (read_log(trained / f"{name}-{n}/log.jsonl") for n in (1, 2))
    assert len(one) == len(two) == STEPS["steps"]
    for mine, theirs in zip(one, two, strict=True):
        for field in ("losses", "loss_gradient_norms"):
            assert theirs[field] == pytest.approx(mine[field], rel=1e-3, abs=1e-5)
        for field in ("gradient_norm", "row_gradient_norm", "epoch"):
            expected = mine[field]
            assert theirs[field] == (expected and pytest.approx(expected, rel=1e-3, abs=1e-6))


@pytest.mark.slow
@pytest.mark.parametrize("shard", [[], ["--shard", "tables", "--shard", "layers"]])
def test_a_killed_process_ends_the_run_which_resumes_to_the_same_end(
    shard: list[str], tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    fields = write_everything(tmp_path, small_graph)
    host = json.loads((tmp_path / "host/config.json").read_text())
    host |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (tmp_path / "host/config.json").write_text(json.dumps(host))
    fields |= {"as_published": True}  # as what is run without the command line
    fields["training"] |= {"steps": 24, "checkpoint_steps": 4, "log_every": 4}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(fields))
    flags = ["-m", "kept", "pretrain", "-c", str(tmp_path / "run.yaml"), "-o", str(tmp_path / "2")]
    started = start([*flags, *shard], 2)
    first = tmp_path / "2/checkpoints/step-00000004"
    while not first.exists():
        assert [process.poll() for process in started] == [None, None]
        time.sleep(0.01)
    started[1].send_signal(signal.SIGKILL)
    (code, output), _ = finish(started)
    assert code == 1
    assert "another process of this run has ended" in output
    assert "--resume" in output
    assert not (tmp_path / "2/model.safetensors").exists()
    (code, output), (other, silent) = finish(start([*flags, *shard, "--resume"], 2))
    assert (code, other) == (0, 0), output + silent
    assert "resumed" not in silent
    assert "finished" not in silent
    assert "resumed from" in output
    assert "step 24 of 24: finished" in output
    run(fields, tmp_path / "1")
    one, two = (load_file(tmp_path / f"{n}/model.safetensors") for n in (1, 2))
    require_same_training(two, one, n_steps=24, **RATES)
    if shard:
        require_ordinary_run(tmp_path)


def require_ordinary_run(folder: Path) -> None:
    """What goes on from a run that one process trained goes on from the folder `2`."""
    (folder / "new.tsv").write_text("A9\tP36\tQ90\n")
    for words in (
        ["kg", "add", folder / "kg", folder / "new.tsv", "-o", folder / "kg2"],
        ["extend", folder / "2", "--kg", folder / "kg2", "-o", folder / "extended"],
        ["pretrain", "-c", folder / "run.yaml", "-o", folder / "2", "--resume"],
    ):
        ended = CliRunner().invoke(app, [*map(str, words)])
        assert ended.exit_code == 0, ended.output
    assert "encoder.entity_embeddings.weight: 10 rows as they were, 1 new" in CliRunner().invoke(
        app, ["extend", str(folder / "2"), "--kg", str(folder / "kg2"), "-o",
              str(folder / "again")]
    ).output  # fmt: skip
    encoded = AutoEncoder.from_pretrained(folder / "2").encode(["Paris."], kg=folder / "kg")
    assert encoded[0].entities is not None


def test_shares_hold_every_sample_and_every_triple_once(
    tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    fields = write_everything(tmp_path, small_graph) | {"method": "kepler"}
    _, data = assemble(PretrainConfig.read(None, fields))
    samples = [data.sample(i, epoch=0, seed=0) for i in range(5)]
    whole = data.collate(samples, epoch=0, seed=0, step=0)
    assert whole.triples is not None

    def texts(batch: KnowledgeBatch) -> list[list[list[int]]]:
        triples = batch.triples
        assert triples is not None
        places = torch.stack([triples.heads, triples.tails, triples.negative_heads[:, 0]], 1)
        ids: list[list[list[int]]] = triples.texts.node_ids[places].tolist()
        return ids

    for n in (2, 3, 4, 9):
        shares = [share_of(whole, [2, 1, 2], rank, n) for rank in range(n)]
        real = [share.batch for share in shares if not share.is_spare]
        assert len(real) == min(n, 3)
        assert torch.cat([each.node_ids for each in real]).equal(whole.node_ids)
        assert [len(each) for each in real] == {2: [2, 3], 3: [2, 1, 2]}[min(n, 3)]
        assert [row for each in real for row in texts(each)] == texts(whole)
        for each in real:
            assert each.triples is not None
            used = torch.cat([each.triples.heads, each.triples.tails,
                              each.triples.negative_heads.flatten(),
                              each.triples.negative_tails.flatten()])  # fmt: skip
            assert len(each.triples.texts) == max(len({*used.tolist()}), 1)


def test_means_are_over_the_labels_of_all() -> None:
    def counting(total: Tensor, n: Tensor | int) -> tuple[Tensor, Tensor | int]:
        return total, n + 6

    three = torch.tensor(3.0)
    assert float(mean_of(three, 2)) == 1.5
    assert float(mean_of(three, torch.tensor(2))) == 1.5
    assert float(mean_of(torch.tensor(0.0), 0)) == 0
    assert bool(mean_of(torch.tensor(0.0), 0, least=0).isnan())
    with counted_by(counting):
        assert float(mean_of(three, 2)) == 3 / 8
    assert float(mean_of(three, 2)) == 1.5


def test_a_launcher_is_refused_where_one_process_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    ended = CliRunner().invoke(app, ["kg", "info", "kg"])
    assert ended.exit_code == 1
    assert "kept kg is one process, and a launcher has started 2" in ended.output
    assert "several processes: pretrain, finetune, compare" in ended.output
