"""The committed configuration loads; on hand-made data every run is made once and only once."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import yaml

from experiments.kbert_zh.trial import (
    ChineseConfig,
    ChineseTrial,
    ChineseWorld,
    page,
    read_examples,
    read_world,
)
from kept.errors import CheckpointError
from kept.inputs.controls.conditions import COMPARED
from kg_loaders.errors import SourceError

FOLDER = Path(__file__).parents[2] / "experiments" / "kbert_zh"
PLANS = sorted(FOLDER.glob("*.yaml"))
WORDS = {"苹果公司": "公司", "北京": "城市", "小说": "作品", "酒店": "建筑"}


def toy_data(folder: Path) -> Path:
    """Eight texts a part, good or bad, that mention four subjects."""
    for name in ("kgs", "toy"):
        (folder / name).mkdir()
    with gzip.open(folder / "kgs" / "Toy.spo.gz", "wt", encoding="utf-8") as out:
        out.writelines(f"{subject}\t义原\t{thing}\n" for subject, thing in WORDS.items())
    for part in ("train", "test"):
        with gzip.open(folder / "toy" / f"{part}.tsv.gz", "wt", encoding="utf-8") as out:
            out.write("label\ttext_a\n")
            for word in WORDS:
                out.write(f"1\t{word}很好\n0\t这个{word}不好\n")
    return folder


@pytest.fixture(scope="module")
def config() -> ChineseConfig:
    (path,) = PLANS
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    ChineseConfig.model_validate(plan)
    host = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    plan |= {
        "dataset": "toy",
        "graph": "Toy",
        "n_train": 6,
        "n_test": 8,
        "seeds": [0, 1],
        "min_count": 1,
        "host": plan["host"] | host,
    }
    plan["training"] = {"steps": 2, "batch_size": 4, "threads": 1}
    return ChineseConfig.model_validate(plan)


@pytest.fixture(scope="module")
def world(config: ChineseConfig, tmp_path_factory: pytest.TempPathFactory) -> ChineseWorld:
    return read_world(toy_data(tmp_path_factory.mktemp("kbert_zh")), config)


def test_the_world_is_what_was_asked(world: ChineseWorld) -> None:
    counts = world.counts()
    assert (len(world.train), len(world.test)) == (6, 8)
    assert counts["mentions_per_text"] == 1.0
    assert counts["majority"] == 0.5


def test_runs_are_made_once_and_compared(
    world: ChineseWorld, config: ChineseConfig, tmp_path: Path
) -> None:
    lines: list[str] = []
    trial = ChineseTrial(config, world, tmp_path)
    assert trial.keys() == [(kind, seed) for seed in (0, 1) for kind in COMPARED]
    trial.run_missing(announce=lines.append)
    cells = trial.stored()
    assert [*cells] == [*COMPARED]
    assert cells["off"][0]["nodes_per_text"] < cells["true"][0]["nodes_per_text"]
    assert lines[1].startswith(f"{COMPARED[1]}, seed 0: accuracy ")

    trial.path("off", 1).unlink()  # the training is there: only its answers are made again
    trial.run_missing()
    assert trial.stored()["off"][1]["right"] == cells["off"][1]["right"]

    table = page(cells, world.counts(), config.published, "COMMAND")
    assert table.count("\n| true |") == 1
    assert "| true − shuffled |" in table
    assert "95.0 | 95.5" in table
    other = config.model_copy(update={"min_length": 3})
    with pytest.raises(CheckpointError, match="other settings"):
        ChineseTrial(other, world, tmp_path).stored()


def test_an_unknown_label_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("label\ttext_a\n1\t好\n2\t坏\n", encoding="utf-8")
    with pytest.raises(SourceError, match=r"x\.tsv, line 3: label '2'"):
        read_examples(path, ["0", "1"])


@pytest.mark.data
def test_real_graphs_and_texts(data_root: Path) -> None:
    (path,) = PLANS
    config = ChineseConfig.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    small = config.model_copy(update={"n_train": 50, "n_test": 100})
    for graph, n_triples in (("HowNet", 52_576), ("Medical", 13_864)):
        world = read_world(data_root / "kbert_zh", small.model_copy(update={"graph": graph}))
        assert world.graph.n_triples == n_triples
        assert (len(world.train), len(world.test)) == (50, 100)
    for name, sizes in (
        ("book_review", (20_000, 10_000, 10_000)),
        ("chnsenticorp", (9_600, 1_200, 1_200)),
    ):
        folder = data_root / "kbert_zh" / name
        parts = [read_examples(folder / f"{p}.tsv.gz", "01") for p in ("train", "dev", "test")]
        assert tuple(map(len, parts)) == sizes
