"""The committed study of joint spaces in small: spaces, strangers, a table, nothing done twice."""

from __future__ import annotations

from pathlib import Path

import torch

from experiments.joint_spaces.reading import READERS, ReadingStudy, page, read, run_seed, source
from experiments.joint_spaces.trial import SHUFFLED, VectorStudy, compare_spaces, shuffled
from kept.lab.reading.cell import open_host
from kept.lab.reading.worlds import TASKS
from kept.vectors import Wikipedia2VecFile
from kg_loaders import KnowledgeGraph
from tests.experiments.test_committed_experiments import small
from tests.kept.tiny_task_files import relation_examples, world_graph, write_task_file
from tests.kept.training.tiny_pretraining import write_host, write_texts

CONFIG = Path(__file__).parents[2] / "experiments" / "joint_spaces" / "vectors.yaml"
READING = CONFIG.with_name("reading.yaml")


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
        name: message | {"width": 8, "epochs": 1, "min_word_count": 1, "min_tokens": 2}
        for name, message in committed.spaces.items()
    }
    study = committed.model_copy(update={"experiment": tiny, "n_texts": 20, "spaces": spaces})
    for name, part in (("train", examples[:72]), ("dev", examples[72:108])):
        write_task_file(tmp_path / tiny["task"][name], tiny["task"]["format"], part)
    messages: list[str] = []
    folder = tmp_path / "runs"
    compared = compare_spaces(study, tmp_path, folder, seeds=1, announce=messages.append)
    rows = {"none", "ernie", *(f"ernie-{name}" for name in (*spaces, SHUFFLED))}
    assert {row.method for row in compared.rows} == rows
    trained = [line for line in messages if "loss" in line and "Corpus" in line]
    assert len(trained) == len(spaces)
    (graph,) = (folder / "graphs").glob("*/manifest.json")
    opened = KnowledgeGraph.open(graph.parent)
    vectors, other = (
        Wikipedia2VecFile(folder / name / "vectors.txt")(opened).vectors
        for name in (study.strangers_of, SHUFFLED)
    )
    assert not torch.equal(vectors, other)
    assert torch.equal(vectors.sort(0).values, other.sort(0).values)
    compare_spaces(study, tmp_path, folder, seeds=1, announce=messages.append)
    assert len([line for line in messages if "Corpus" in line]) == len(spaces)


def test_every_entity_gets_the_vector_of_another() -> None:
    vectors = torch.arange(9.0)[:, None]
    actual = shuffled(vectors, 3, seed=0)
    assert torch.equal(actual[:3], vectors[:3])
    assert (actual[3:] != vectors[3:]).all()
    assert torch.equal(actual[3:].sort(0).values, vectors[3:])


def test_reading_in_small(tmp_path: Path) -> None:
    """Every source and reader of the file; what is stored is not run again."""
    committed = ReadingStudy.read(READING)
    few = {"epochs": 1, "min_word_count": 1}
    study = committed.model_copy(update={
        "host": str(write_host(tmp_path / "host")), "n_layers": 2, "seeds": (0,), "steps": 2,
        "n_train": 16, "n_test": 8, "n_sentences": 40, "width": 8,
        "spaces": {name: message | few for name, message in committed.spaces.items()},
        "networks": {name: report | {"n_epochs": 1} for name, report in committed.networks.items()},
    })  # fmt: skip
    out, output = tmp_path / "run", list[str]()
    out.mkdir()
    budget = study.cell("ernie", 0).budget
    record = run_seed(study, 0, out, lambda: open_host(budget), output.append)
    assert [*record["right"]] == [f"{reader}: {name}" for reader, name in study.rows]
    assert len(output) == len(study.rows)
    assert {len(right) for right in record["right"].values()} == {8}
    assert set(record["steps"].values()) == {2}
    assert run_seed(study, 0, out, lambda: open_host(budget), output.append) == record
    assert len(output) == len(study.rows)
    text = page(study, [record], "the command")
    assert all(f"| {name} |" in text for _, name in study.rows)


def test_vectors_tell_a_reader_what_the_graph_says(tmp_path: Path) -> None:
    """A source is a file of every entity; strangers have the same vectors in another order."""
    study = ReadingStudy.read(READING).model_copy(update={
        "n_train": 16, "n_test": 8, "width": 8, "host": str(write_host(tmp_path / "host")),
        "n_layers": 2, "steps": 2,
    })  # fmt: skip
    world = TASKS["occupation"](study.cell("ernie", 0).size, 0)
    files = [source(study, world, 0, name, tmp_path) for name in ("transe", f"transe {SHUFFLED}")]
    vectors, other = (Wikipedia2VecFile(file)(world.graph) for file in files)
    assert vectors.known.all()
    assert not torch.equal(vectors.vectors, other.vectors)
    assert torch.equal(vectors.vectors.sort(0).values, other.vectors.sort(0).values)
    assert {*READERS} == {"ernie", "ebert"}
    opened = open_host(study.cell("ernie", 0).budget)
    right, steps = read(study, "ernie", 0, files[0], world, opened)
    assert (len(right), steps) == (8, 2)
