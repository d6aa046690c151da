"""Adapters from the command line: one of facts, one of trees, fused in a task."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file
from torch import Tensor
from typer.testing import CliRunner, Result

from kept.adapters.files import find_adapter
from kept.apps.cli import app
from kept.auto import AutoEncoder
from kept.encoders.kadapter import KAdapter
from kept.errors import CheckpointError, ConfigError
from kept.heads.model import KnowledgeForTask
from kept.hosts import load_host, load_tokenizer
from kept.training.log import read_log
from kept.training.pretraining.config import PretrainConfig
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import GraphMismatchError
from tests.kept.training.tiny_pretraining import write_everything

TREES = [
    ("the river flows through the city", [2, 3, 0, 6, 6, 3]),
    ("the old people speaks", [3, 3, 4, 0]),
    ("Paris is near", [3, 3, 0]),
    ("the capital lies in the old country", [2, 3, 0, 7, 7, 7, 3]),
]


def kept(*flags: object) -> Result:
    return CliRunner().invoke(app, [*map(str, flags)])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    folder = tmp_path_factory.mktemp("adapters")
    settings = write_everything(folder, small_graph)
    (folder / "facts.yaml").write_text(yaml.safe_dump(settings | {"method": "kadapter"}))
    blocks = []
    for text, heads in TREES:
        rows = [
            "\t".join([str(i), form, "_", "X", "_", "_", str(head), "dep", "_", "_"])
            for i, (form, head) in enumerate(zip(text.split(), heads, strict=True), 1)
        ]
        blocks.append("\n".join([f"# text = {text}", *rows]) + "\n")
    for name, part in (("one", blocks[:2]), ("two", blocks[2:])):
        with gzip.open(folder / f"{name}.conllu.gz", "wt", encoding="utf-8") as file:
            file.write("\n".join(part) + "\n")
    texts = [f"{'old' if i % 2 else 'near'} Paris is {'abcdefghijkl'[i]}" for i in range(12)]
    table = "\n".join(f"{'o' if 'old' in text else 'n'}\t{text}" for text in texts)
    (folder / "texts.tsv").write_text(table, encoding="utf-8")
    return folder


def on_trees(world: Path, *flags: object) -> Result:
    return kept(
        "pretrain", "--method", "kadapter", "--treebank", world / "one.conllu.gz", "--treebank",
        world / "two.conllu.gz", "--host", world / "host", "--steps", 6, "--batch-size", 2,
        "--threads", 1, "--lr", 0.01, "--set", "training.device=cpu", "--set",
        "training.log_every=1", *flags,
    )  # fmt: skip


@pytest.fixture(scope="module")
def runs(world: Path) -> dict[str, Path]:
    """The factual and the linguistic adapter, each trained by a run."""
    folders = {name: world / name for name in ("factual", "linguistic")}
    result = kept("pretrain", "-c", world / "facts.yaml", "-o", folders["factual"])
    assert result.exit_code == 0, result.output
    result = on_trees(world, "--objective", "dependency_heads", "-o", folders["linguistic"])
    assert result.exit_code == 0, result.output
    assert "DependencyData(4 sentences" in result.stderr
    return folders


def finetune(world: Path, *flags: object) -> Result:
    return kept(
        "finetune", "--method", "kadapter", "--host", world / "host", "--task", "classification",
        "--format", "tsv", "--train", world / "texts.tsv", "--kg", world / "kg", "--link",
        "--steps", 4, "--batch-size", 4, "--lr", 0.01, "--threads", 1, "--set",
        "training.device=cpu", "--set", "dev_share=0.3", *flags,
    )  # fmt: skip


def adapter_weights(folder: Path) -> dict[str, Tensor]:
    return load_file(find_adapter(folder) / "adapter.safetensors")


def test_a_run_on_trees_trains_the_linguistic_adapter_without_a_graph(
    world: Path, runs: dict[str, Path]
) -> None:
    rows = read_log(runs["linguistic"] / "log.jsonl")
    losses = [row["losses"]["dependency_heads"] for row in rows]
    assert len(losses) == 6
    assert losses[-1] < losses[0]
    header = json.loads((runs["linguistic"] / "adapters/linguistic/adapter.json").read_text())
    assert header["options"]["trained_on"] == "dependency_heads"
    assert header["options"]["graph_hash"] == ""
    assert json.loads((runs["linguistic"] / "pretrain.json").read_text())["kg"] is None
    host = load_file(world / "host/model.safetensors")
    after = load_file(runs["linguistic"] / "model.safetensors")
    assert all(after[f"encoder.host.{name}"].equal(value) for name, value in host.items())
    encoded = AutoEncoder.from_pretrained(runs["linguistic"]).encode(["the old city"])
    assert encoded.sentences.isfinite().all()


def test_each_run_saves_the_adapter_that_it_trained(
    runs: dict[str, Path], small_graph: KnowledgeGraph
) -> None:
    for name, run in runs.items():
        assert [folder.name for folder in (run / "adapters").iterdir()] == [name]
        model = load_file(run / "model.safetensors")
        for key, value in adapter_weights(run).items():
            assert value.equal(model[f"encoder.adapters.{name}.{key}"]), key
    header = json.loads((runs["factual"] / "adapters/factual/adapter.json").read_text())
    assert header["options"]["graph_hash"] == small_graph.content_hash


@pytest.mark.parametrize("fusion", ["concat", "sum"])
def test_both_are_fused_in_a_task_and_stay_as_they_are(
    fusion: str, world: Path, runs: dict[str, Path], tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    result = finetune(
        world, "--adapter", runs["factual"], "--adapter",
        runs["linguistic"] / "adapters/linguistic", "--set", f"options.fusion={fusion}",
        "-o", tmp_path,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "metrics.json").read_text())["dev"]["n_scored"] > 0
    weights = load_file(tmp_path / "model.safetensors")
    for name, run in runs.items():
        trained = adapter_weights(run)
        assert len(trained) > 10
        for key, value in trained.items():
            assert value.equal(weights[f"encoder.adapters.{name}.{key}"]), key
    host = load_file(world / "host/model.safetensors")
    changed = [name for name, v in host.items() if not v.equal(weights[f"encoder.host.{name}"])]
    assert any("attention" in name for name in changed)
    model = KnowledgeForTask.from_pretrained(tmp_path, graph=small_graph)
    assert (model.encoder.names, model.encoder.config.fusion) == (sorted(runs), fusion)
    assert ("encoder.fusion.joint.weight" in weights) is (fusion == "concat")


def test_a_fine_tuning_with_adapters_goes_on_where_it_stopped(
    world: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    config: dict[str, Any] = {"adapters": [str(run) for run in runs.values()]}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    flags = ("-c", tmp_path / "run.yaml", "-o")
    assert finetune(world, *flags, tmp_path / "whole").exit_code == 0
    cut = finetune(world, *flags, tmp_path / "cut", "--budget-minutes", 1e-9)
    assert "stopped at the time budget" in cut.stdout
    resumed = kept(
        "finetune", "-o", tmp_path / "cut", "--resume", "--set", "training.budget_minutes=null"
    )
    assert resumed.exit_code == 0, resumed.output
    one, other = (load_file(tmp_path / n / "model.safetensors") for n in ("whole", "cut"))
    assert all(one[name].equal(other[name]) for name in one)


def test_a_third_adapter_learns_with_saved_ones(
    world: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    folders = [str(run) for run in runs.values()]
    result = on_trees(
        world, "--kg", world / "kg", "-o", tmp_path, "--set", "options.adapters={syntax: {}}",
        "--set", f"options.adapters_from={folders}",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert [folder.name for folder in (tmp_path / "adapters").iterdir()] == ["syntax"]
    weights = load_file(tmp_path / "model.safetensors")
    for name, run in runs.items():
        for key, value in adapter_weights(run).items():
            assert value.equal(weights[f"encoder.adapters.{name}.{key}"]), key


def test_adapters_of_other_graphs_and_doubtful_folders_are_refused(
    world: Path, runs: dict[str, Path], tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    host, words = load_host(world / "host"), load_tokenizer(world / "host")
    other = KAdapter.from_host(host, small_graph, adapters={"a": {}, "b": {}})
    other.describe_adapter("a", graph_hash="elsewhere")
    other.save_trained_parts(tmp_path)

    def with_adapters(*folders: Path, **options: Any) -> KAdapter:
        return KAdapter.for_graph(
            host, small_graph, words, seed=0, adapters_from=folders, **options
        )

    with pytest.raises(CheckpointError, match=r"2 adapters in adapters/; name the folder of one"):
        with_adapters(tmp_path)
    with pytest.raises(CheckpointError, match=r"no adapters/ of a run"):
        with_adapters(world / "host")
    with pytest.raises(GraphMismatchError, match="trained on the graph elsewhere"):
        with_adapters(tmp_path / "adapters/a")
    assert with_adapters(tmp_path / "adapters/a", any_graph=True).names == ["a"]
    with pytest.raises(ConfigError, match="there is an adapter 'factual' already"):
        with_adapters(runs["factual"], runs["factual"])
    result = finetune(world, "--adapter", tmp_path / "adapters/a", "-o", tmp_path / "run")
    assert "trained on the graph elsewhere" in result.stderr.replace("\n", " ")
    assert result.exit_code == 1
    result = finetune(
        world, "--adapter", tmp_path / "adapters/a", "--set", "any_graph=true", "-o",
        tmp_path / "run",
    )  # fmt: skip
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("values", "faults"),
    [
        ({"steps": 3}, ["treebank: give text or treebank, exactly one", "kg: required"]),
        (
            {"text": ["a"], "treebank": ["b"], "kg": "c", "host": 3},
            ["treebank: give text or treebank, exactly one", "host: "],
        ),
        ({"text": ["a"], "method": "kadapter"}, ["kg: required"]),
        ({"treebank": ["a"], "method": "colake"}, ["kg: required"]),
        (
            {"treebank": ["a"], "objectives": {"mlm": {}}, "view": {"further": []}},
            [
                "objectives: trees are read by dependency_heads alone", "view: a model gets the sentences",  # noqa: E501
                "kg: required",
            ],
        ),
    ],
)  # fmt: skip
def test_every_fault_of_the_data_at_once(values: dict[str, Any], faults: list[str]) -> None:
    training = {"steps": values.pop("steps", 2), "batch_size": 2, "epochs": 1}
    with pytest.raises(ConfigError) as raised:
        PretrainConfig.read(None, values | {"training": training})
    message = str(raised.value)
    for fault in [*faults, "training.epochs: give steps or epochs"]:
        assert fault in message
    assert f"{len(faults) + 1} faults" in message


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--method", "colake"], "colake has no adapters"),
        (["--knowledge", "shuffled"], "whatever knowledge='shuffled' takes away"),
        (["--model", "."], "adapters belong to a new encoder"),
    ],
)
def test_adapters_where_they_do_not_belong(
    flags: list[object], message: str, world: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    result = finetune(world, "--adapter", runs["factual"], *flags, "-o", tmp_path / "run")
    assert result.exit_code == 1
    assert message in result.stderr.replace("\n", " ")
