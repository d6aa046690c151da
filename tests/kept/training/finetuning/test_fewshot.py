"""Few-shot episodes: a loop oracle, the draws, and a run from files to a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entity_linking.annotations.relations import RelationExample
from kept.errors import ConfigError, EvaluationError, NoKnowledgeError, UnfinishedError
from kept.randomness import generator
from kept.training.finetuning import fewshot
from kept.training.finetuning.data import TaskData
from kept.training.finetuning.fewshot import FewshotConfig, episode_accuracies, run_fewshot
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_task_files import write_task_file

LABELS = [label for label in "abcdef" for _ in range(9)]
SIZES = {"way": 3, "shot": 2, "n_queries": 4, "n_episodes": 20, "seed": 5}


def slow(labels: list[str], vectors: Any, episode: int) -> float:
    """One episode with loops: the distance of each question to each mean."""
    draws = generator(5, "episode", 3, 2, episode)
    names = sorted(set(labels))
    right = 0
    supports, questions = [], []
    for k in draws.choice(len(names), 3, replace=False):
        pool = [i for i, label in enumerate(labels) if label == names[k]]
        chosen = draws.choice(pool, 6, replace=False)
        supports.append(sum(vectors[i] for i in chosen[:2]) / 2)
        questions.append(chosen[2:])
    for k, items in enumerate(questions):
        for i in items:
            distances = [((vectors[i] - centre) ** 2).sum() for centre in supports]
            right += distances.index(min(distances)) == k
    return right / 12


def test_episodes_agree_with_loops() -> None:
    vectors = np.random.default_rng(0).normal(size=(54, 5)) + np.arange(54)[:, None] // 9
    accuracies = episode_accuracies(LABELS, vectors, **SIZES)
    assert 0.4 < accuracies.mean() < 1
    assert accuracies.tolist() == [slow(LABELS, vectors, i) for i in range(20)]
    longer = episode_accuracies(LABELS, vectors, **SIZES | {"n_episodes": 30})
    assert longer[:20].tolist() == accuracies.tolist()
    apart = np.eye(6)[np.arange(54) // 9]
    assert episode_accuracies(LABELS, apart, **SIZES).tolist() == [1.0] * 20
    order = np.random.default_rng(1).permutation(54)
    shuffled = episode_accuracies([LABELS[i] for i in order], apart[order], **SIZES)
    assert shuffled.tolist() == [1.0] * 20


def test_too_few() -> None:
    vectors = np.zeros((54, 2))
    for change in ({"way": 7}, {"shot": 6}):
        with pytest.raises(EvaluationError, match="there are 6 with 9 or more"):
            episode_accuracies(LABELS, vectors, **SIZES | change)
    with pytest.raises(ConfigError, match="novel_format: one of"):
        FewshotConfig.read(None, {"name": "x", "task": {}, "novel": "x", "novel_format": "tsv"})


def configured(folder: Path, host: Path, task: dict[str, Any], **changes: Any) -> FewshotConfig:
    """Two relations are trained, three asked; `folder` holds the files."""
    training = {"steps": 2, "batch_size": 4, "device": "cpu", "threads": 1}
    whole = {
        "task": "relation", "format": "wiki80", "train": str(folder / "all.txt"),
        "kg": str(folder / "kg"), "method": "kbert", "host": str(host), "leave_out": ["P20"],
        **task, "training": training | task.get("training", {}),
    }  # fmt: skip
    values: dict[str, Any] = {
        "name": "x", "task": whole, "novel": folder / "novel.txt", "novel_format": "wiki80",
        "ways": (2,), "shots": (1,), "n_queries": 2, "n_episodes": 4, **changes,
    }  # fmt: skip
    return FewshotConfig(**values)


@pytest.fixture
def files(examples: list[RelationExample], world: KnowledgeGraph, tmp_path: Path) -> Path:
    world.save(tmp_path / "kg")
    write_task_file(tmp_path / "all.txt", "wiki80", examples)
    write_task_file(tmp_path / "novel.txt", "wiki80", examples[:90])
    return tmp_path


def test_a_training_that_its_budget_ended_is_not_asked(files: Path, host: Path) -> None:
    short = {"training": {"budget_minutes": 1e-9}}
    with pytest.raises(UnfinishedError, match="at step 1 of 2"):
        run_fewshot(configured(files, host, short), files / "run")
    assert run_fewshot(configured(files, host, {}), files / "run")["n_asked"] == 90


def test_too_few_are_told_before_training(files: Path, host: Path) -> None:
    with pytest.raises(EvaluationError, match=r"9 classes of 1 \+ 2 examples are requested"):
        run_fewshot(configured(files, host, {}, ways=(2, 9)), files / "run")
    assert not (files / "run").exists()


def test_novel_examples_are_shown_as_an_asked_set_is(
    files: Path,
    host: Path,
    examples: list[RelationExample],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Controlled, spoilt, and linked where they have no link."""
    seen: list[list[str | None]] = []

    def entities(model: Any, data: TaskData, **_: Any) -> Any:
        seen.append([link.entity for e in data.examples for link in e.linked.links])
        return np.zeros((len(data), 2))

    monkeypatch.setattr(fewshot, "representations", entities)

    def queries(task: dict[str, Any], **changes: Any) -> list[str | None]:
        run_fewshot(configured(files, host, task, trained=False, **changes), files / "run")
        return seen.pop()

    true, moved = queries({}), queries({"knowledge": "random-entity"})
    assert len(true) == len(moved) == 180
    assert all(one != other for one, other in zip(true, moved, strict=True))
    assert queries({"link_errors": {"share": 1.0}}) == []
    assert queries({"link_errors": {"share": 1.0, "sets": "train"}}) == true
    for name, part in (("all", examples), ("novel", examples[:90])):
        write_task_file(files / f"{name}.txt", "semeval", part)  # its texts have no link
    plain = {"format": "semeval", "leave_out": []}
    with pytest.raises(NoKnowledgeError, match=r"no text has a link; .*`link: true`"):
        queries(plain, novel_format="semeval")
    assert queries(plain | {"link": True}, novel_format="semeval") == true


@pytest.mark.parametrize("trained", [True, False])
def test_a_run(
    trained: bool,
    examples: list[RelationExample],
    world: KnowledgeGraph,
    host: Path,
    tmp_path: Path,
) -> None:
    world.save(tmp_path / "kg")
    seen = [e for e in examples if e.relation != "P20"]
    training = {"steps": 2, "batch_size": 4, "device": "cpu", "threads": 1}
    train = write_task_file(tmp_path / "all.txt", "wiki80", examples)
    novel = write_task_file(tmp_path / "novel.txt", "wiki80", examples[:90])
    task = {
        "task": "relation", "format": "wiki80", "train": str(train),
        "kg": str(tmp_path / "kg"), "method": "colake", "host": str(host), "leave_out": ["P20"],
        "training": training,
    }  # fmt: skip
    config = FewshotConfig(
        name="x", task=task, trained=trained, novel=novel,
        novel_format="wiki80", ways=(2,), shots=(1, 2), n_queries=2, n_episodes=4, max_novel=60,
    )  # fmt: skip
    result = run_fewshot(config, tmp_path / "run")
    assert list(result["scores"]) == ["2-way 1-shot", "2-way 2-shot"]
    assert result["n_asked"] == 60
    assert result["labels"] == ["P19", "P551"]
    assert result["n_train"] + result["n_dev"] < len(seen)  # what is asked is never trained on
    assert result["n_triples_removed"] >= 30  # ten people in three relations, and inverses
    assert (tmp_path / "run/log.jsonl").exists() == trained
    for interval in result["scores"].values():
        assert interval["low"] <= interval["estimate"] <= interval["high"]
        assert (interval["baseline"], interval["n"]) == (0.5, 4)
    assert run_fewshot(config, tmp_path / "run")["scores"] == result["scores"]
