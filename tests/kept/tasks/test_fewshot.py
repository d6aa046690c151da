"""Few-shot episodes: a loop oracle, the draws, and a run from files to a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_task_files import write_task_file

from entity_linking.relations import RelationExample
from kept.errors import ConfigError, EvaluationError
from kept.randomness import generator
from kept.tasks.fewshot import FewshotConfig, episode_accuracies, run_fewshot
from kg_loaders import KnowledgeGraph

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
    found = episode_accuracies(LABELS, vectors, **SIZES)
    assert 0.4 < found.mean() < 1
    assert found.tolist() == [slow(LABELS, vectors, i) for i in range(20)]
    longer = episode_accuracies(LABELS, vectors, **SIZES | {"n_episodes": 30})
    assert longer[:20].tolist() == found.tolist()
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
    for found in result["scores"].values():
        assert found["low"] <= found["estimate"] <= found["high"]
        assert (found["baseline"], found["n"]) == (0.5, 4)
    assert run_fewshot(config, tmp_path / "run")["scores"] == result["scores"]
