"""Every task's file is an experiment whose fields a run takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.fewshot.trial import read, table
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.files import shipped_experiments
from kept.tasks.scores.official_scores import OFFICIAL
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.fewshot import FewshotConfig

ROOT = Path(__file__).parents[2] / "experiments"
NAMES = (
    "semeval2010", "fewrel", "redocred", "ultrafine", "wnut17",
    "sst2", "cola", "wic", "sst2-before", "cola-before", "wic-before", "open_entity-before",
)  # fmt: skip
MECHANISMS = ROOT / "relation_extraction/mechanisms.yaml"
PATHS = [shipped_experiments()[name] for name in NAMES]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_task_file(path: Path) -> None:
    actual = Experiment.read(path)
    assert actual.name == path.stem
    assert actual.differs
    for method in ("none", "colake"):
        config = FinetuneConfig.model_validate({**actual.task, "method": method})
        assert (actual.metric == "official") == (config.format in OFFICIAL)
        assert actual.asked == "dev" or config.test or config.test_share


def test_one_set_of_facts_for_every_mechanism() -> None:
    actual = Experiment.read(MECHANISMS)
    assert actual.name == "mechanisms"
    for name in actual.methods:
        config = FinetuneConfig.model_validate(
            actual.row(name) | {"method": actual.variant_of(name)}
        )
        assert (config.host, config.freeze, len(config.leave_out)) == ("minilm:3", ("words",), 70)
        assert config.graph is not None
        assert (config.graph.directions, config.graph.max_neighbours) == ("both", 4)


@pytest.mark.data
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_its_files_are_there(path: Path, data_root: Path) -> None:
    task = Experiment.read(path).task
    for part in ("train", "dev", "test"):
        name = task.get(part, task["train"])
        archive, zipped, _ = name.partition(".zip/")
        assert (data_root / (f"{archive}.zip" if zipped else name)).is_file()


def test_the_fewshot_file_and_its_table() -> None:
    config = read(
        ROOT / "fewshot/episodes.yaml", Path("/data"), Path("/kg"), {"task.method": "ernie"}
    )
    assert isinstance(config, FewshotConfig)
    task = FinetuneConfig.model_validate(config.task)
    assert (task.train, task.kg) == (Path("/data/re/wiki80/train_0.1.txt.gz"), Path("/kg"))
    assert (task.method, len(task.leave_out)) == ("ernie", 16)
    assert config.novel == Path("/data/re/fewrel/val_wiki.json.gz")
    settings = {f"{way}-way {shot}-shot" for way in config.ways for shot in config.shots}
    assert {row.metric for row in config.published} == settings
    actual = {"estimate": 0.5, "low": 0.25, "high": 0.75, "baseline": 0.2}
    last = table(config, {"scores": {"5-way 1-shot": actual}}).splitlines()[-1]
    assert last == "| 5-way 1-shot | 50.00 [25.00, 75.00] | 20 | 85.66 |"
