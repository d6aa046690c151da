"""The committed study of joint spaces in small: spaces, strangers, a table, nothing done twice."""

from __future__ import annotations

from pathlib import Path

import torch
from test_committed_experiments import small
from tiny_pretraining import write_host, write_texts
from tiny_task_files import relation_examples, world_graph, write_task_file

from experiments.joint_spaces.study import STRANGERS, VectorStudy, run, strangers
from kept.vectors import Wikipedia2VecFile
from kg_loaders import KnowledgeGraph

CONFIG = Path(__file__).parents[2] / "experiments" / "joint_spaces" / "vectors.yaml"


def test_the_study_in_small(tmp_path: Path) -> None:
    examples = relation_examples()
    world_graph(examples).save(tmp_path / "kg")
    write_texts([e.linked for e in examples[180:]], tmp_path / "texts.jsonl")
    write_host(tmp_path / "host")
    committed = VectorStudy.read(CONFIG)
    tiny = small(committed.base(), tmp_path).model_dump(exclude={"methods"}, exclude_unset=True)
    tiny["task"]["training"]["epochs"] = None  # steps, in place of the shipped experiment's
    tiny["pretraining"]["training"]["epochs"] = None
    spaces = {
        name: told | {"width": 8, "epochs": 1, "min_word_count": 1, "min_tokens": 2}
        for name, told in committed.spaces.items()
    }
    study = committed.model_copy(update={"experiment": tiny, "n_texts": 20, "spaces": spaces})
    for name, part in (("train", examples[:72]), ("dev", examples[72:108])):
        write_task_file(tmp_path / tiny["task"][name], tiny["task"]["format"], part)
    told: list[str] = []
    folder = tmp_path / "runs"
    compared = run(study, tmp_path, folder, seeds=1, announce=told.append)
    rows = {"none", "ernie", *(f"ernie-{name}" for name in (*spaces, STRANGERS))}
    assert {row.method for row in compared.rows} == rows
    trained = [line for line in told if "loss" in line and "Corpus" in line]
    assert len(trained) == len(spaces)
    (graph,) = (folder / "graphs").glob("*/manifest.json")
    opened = KnowledgeGraph.open(graph.parent)
    own, other = (
        Wikipedia2VecFile(folder / name / "vectors.txt")(opened).vectors
        for name in (study.strangers_of, STRANGERS)
    )
    assert not torch.equal(own, other)
    assert torch.equal(own.sort(0).values, other.sort(0).values)
    run(study, tmp_path, folder, seeds=1, announce=told.append)
    assert len([line for line in told if "Corpus" in line]) == len(spaces)


def test_every_entity_gets_the_vector_of_another() -> None:
    vectors = torch.arange(9.0)[:, None]
    found = strangers(vectors, 3, seed=0)
    assert torch.equal(found[:3], vectors[:3])
    assert (found[3:] != vectors[3:]).all()
    assert torch.equal(found[3:].sort(0).values, vectors[3:])
