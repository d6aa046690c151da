"""Questions whose targets are too far apart for a window: not read, and counted all the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entity_linking.annotations.relations import RelationExample
from kept.randomness import generator
from kept.tasks.scores.official_scores import official_score
from kept.training.finetuning.assembly import assemble
from kept.training.finetuning.config import FinetuneConfig
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_task_files import wiki80_row

N, N_CUT = 20, 15


@pytest.mark.parametrize("method", ["none", "kbert"])
def test_they_are_wrong_in_the_official_score(
    examples: list[RelationExample], world: KnowledgeGraph, host: Path, tmp_path: Path, method: str
) -> None:
    rows = [wiki80_row(example) for example in examples[::3][: 2 * N]]
    for row in rows[:N_CUT]:
        _, later = sorted(("h", "t"), key=lambda end: row[end]["pos"])
        first = row[later]["pos"][0]
        row["token"] = [*row["token"][:first], *["old"] * 30, *row["token"][first:]]
        row[later]["pos"] = [position + 30 for position in row[later]["pos"]]
    for name, part in (("dev", rows[:N]), ("train", rows[N:])):
        lines = [json.dumps(row) for row in part]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    world.save(tmp_path / "kg")
    values = {
        "task": "relation", "format": "semeval", "train": tmp_path / "train.txt",
        "dev": tmp_path / "dev.txt", "kg": tmp_path / "kg", "method": method, "host": str(host),
        "graph": {"max_words": 24}, "link": True,
        "training": {"steps": 1, "batch_size": 4, "device": "cpu"},
    }  # fmt: skip
    assembled = assemble(FinetuneConfig.model_validate(values))
    assert len(assembled.evaluation["dev"].cut_off) == N_CUT
    data = assembled.evaluation["dev"]
    predicted, metrics = assembled.score("dev")
    assert (metrics["n_asked"], metrics["n_scored"]) == (N, N - N_CUT)
    official, base = metrics["official"], metrics["baseline"]["official"]
    assert (official["n_cut_off"], base["n_cut_off"]) == (N_CUT, N_CUT)
    relations = {row["relation"] for row in rows[:N]}
    assert official["name"] == f"macro F1 of {len(relations)} relations, directed, without Other"
    answers = [*predicted, *[("no such relation",)] * N_CUT]
    everything = [*data.examples, *data.cut_off]
    expected = official_score("semeval", answers, everything, (), generator(0, "t"))
    assert expected is not None
    assert official["estimate"] == expected["estimate"]
    alone = official_score("semeval", predicted, data.examples, (), generator(0, "t"))
    assert alone is not None
    without_cut = official["beside"]["without questions cut off with the text"]
    assert without_cut == alone["estimate"]
    # the majority's answer needs no text: it is right or wrong on all that was asked
    gold = [row["relation"] for row in rows[:N]]
    answer = assembled.baseline.labels[0]
    precision = gold.count(answer) / N
    f1 = 2 * precision / (precision + 1) / len(relations)
    assert base["estimate"] == pytest.approx(f1)
