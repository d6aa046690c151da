"""Spoilt links: in a run's configuration, and as a curve over a run that has been trained."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml

from entity_linking.annotations import gold_link
from entity_linking.corruption import corrupt
from entity_linking.mentions import LinkedText, Mention
from kept.inputs.controls.link_errors import LinkErrors, corrupt_links, corrupted_sets
from kept.methods import METHODS
from kept.tasks.datasets.formats import TaskExample
from kept.tasks.kinds import MULTI, TAGGING
from kept.training.finetuning.link_error_curve import right_shares
from kg_loaders import KnowledgeGraph
from tests.kept.training.test_finetune_command import finetune, kept, rows
from tests.kept.training.tiny_pretraining import write_everything


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    folder = tmp_path_factory.mktemp("link_errors")
    pretraining = write_everything(folder, small_graph)
    (folder / "pretrain.yaml").write_text(yaml.safe_dump(pretraining), encoding="utf-8")
    for name, opening in (("train", "the"), ("dev", "old")):
        lines = [json.dumps(row) for row in rows(small_graph, opening)]
        (folder / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def trained(world: Path) -> Path:
    result = finetune(world, "--steps", 4, "--lr", 0.01, "-o", world / "run", method="kbert")
    assert result.exit_code == 0, result.output
    return world / "run"


def test_the_curve_of_a_trained_run(world: Path, trained: Path, tmp_path: Path) -> None:
    result = kept("curve", trained, "-o", tmp_path / "curve", "--shares", "1,0,0.5")
    assert result.exit_code == 0, result.output
    with (tmp_path / "curve/curve.csv").open(encoding="utf-8", newline="") as file:
        points = list(csv.DictReader(file))
    assert [(p["kind"], float(p["share"])) for p in points] == [
        (kind, share) for kind in ("drop", "swap", "random") for share in (0, 0.5, 1)
    ]
    assert [int(p["n_spoilt"]) for p in points[:3]] == [0, 8, 16]
    accuracy = json.loads((trained / "metrics.json").read_text())["dev"]["accuracy"]["estimate"]
    clean = [p for p in points if float(p["share"]) == 0]
    assert {float(p["accuracy"]) for p in clean} == {accuracy}
    assert {float(p["lost"]) for p in clean} == {0.0}
    for point in points:
        assert float(point["lost"]) == pytest.approx(accuracy - float(point["accuracy"]))
    assert (tmp_path / "curve/curve.png").read_bytes().startswith(b"\x89PNG")
    table = (tmp_path / "curve/curve.md").read_text()
    assert result.stdout.endswith(f"{table}curve in {tmp_path / 'curve'}\n")


def test_a_point_is_what_the_same_errors_in_the_configuration_give(
    world: Path, trained: Path, tmp_path: Path
) -> None:
    flags = ("--steps", 4, "--lr", 0.01, "--set", "link_errors={kind: drop, share: 1.0}")
    assert finetune(world, *flags, "-o", tmp_path / "run", method="kbert").exit_code == 0
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["link_errors"] == {"dev": "16 dropped, 0 swapped of 16 links"}
    assert kept("curve", trained, "-o", tmp_path, "--shares", "1", "--kinds", "drop").exit_code == 0
    with (tmp_path / "curve.csv").open(encoding="utf-8", newline="") as file:
        (point,) = csv.DictReader(file)
    assert float(point["accuracy"]) == metrics["dev"]["accuracy"]["estimate"]
    assert float(point["micro_f1"]) == metrics["dev"]["micro"]["f1"]


def test_what_is_right_is_told_by_the_kind_of_problem() -> None:
    text, targets = LinkedText("a b", ()), (Mention(0, 1), Mention(2, 3))
    pair = TaskExample(text, ("P1", "P2"), targets)  # of a document: two targets, two relations
    answers = [("P1",), ("P2", "P1"), ("P1", "P2", "P3")]
    assert right_shares(answers, [pair] * 3, MULTI).tolist() == [0.0, 1.0, 0.0]
    tagged = TaskExample(text, ("B", "O"), targets)
    assert right_shares([("B", "B"), ("O", "B")], [tagged] * 2, TAGGING).tolist() == [0.5, 0.0]
    word = TaskExample(text, ("B",), targets[:1])
    assert right_shares([("B",), ("O",)], [word] * 2, TAGGING).tolist() == [1.0, 0.0]


def test_trained_on_errors(world: Path, trained: Path, tmp_path: Path) -> None:
    flags = ("--steps", 2, "--set", "link_errors={kind: random, share: 0.5, sets: train}")
    assert finetune(world, *flags, "-o", tmp_path / "run", method="kbert").exit_code == 0
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["link_errors"] == {"train": "0 dropped, 8 swapped (8 any) of 16 links"}
    touched = [LinkErrors(sets=s).touches(n) for s in ("asked", "train", "all") for n in
               ("train", "dev")]  # fmt: skip
    assert touched == [False, True, True, False, True, True]


def test_a_random_entity_need_not_be_likely(small_graph: KnowledgeGraph) -> None:
    texts = [LinkedText("Paris", (gold_link(0, 5, "Q90"),), str(i)) for i in range(60)]
    corrupted, report = corrupt(texts, swap=1.0, seed=0, graph=small_graph, wrong="any")
    assert report.swapped_by["any"] == 60
    entities = {text.links[0].entity for text in corrupted}
    assert "Q90" not in entities
    assert "Q830149" in entities  # it has no triple: another degree


def test_random_controls_of_a_run(world: Path, tmp_path: Path) -> None:
    for knowledge in ("random-entity", "random-tokens"):
        out = tmp_path / knowledge
        flags = ("--steps", 2, "--knowledge", knowledge, "-o", out)
        assert finetune(world, *flags, method="kbert").exit_code == 0
        metrics = json.loads((out / "metrics.json").read_text())
        assert (metrics["n_true_triples"] == 0) is (knowledge == "random-tokens")
    for method in (name for name, line in METHODS.items() if line.reads != "links"):
        # knowledge came before, or never
        flags = ("--steps", 2, "--knowledge", "random-entity", "-o", tmp_path / method)
        result = finetune(world, *flags, method=method)
        assert result.exit_code == 1
        assert "reads the graph in pre-training alone" in result.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--shares", "a"], "comma-separated numbers"),
        (["--shares", "2"], "from 0 to 1"),
        (["--kinds", "drop,lose"], "--kinds 'lose'"),
        (["--set", "train"], "dev or test"),
        (["--set", "test"], "has no set 'test'"),
    ],
)
def test_faults_of_the_curve(flags: list[str], message: str, trained: Path, tmp_path: Path) -> None:
    result = kept("curve", trained, "-o", tmp_path, *flags)
    assert result.exit_code == 1
    assert message in result.stderr.replace("\n", " ")


def test_faults_of_the_configuration(world: Path, tmp_path: Path) -> None:
    off = ("--knowledge", "off", "--set", "link_errors={share: 0.5}", "--steps", 1, "-o", tmp_path)
    assert "no link to corrupt" in finetune(world, *off, method="kbert").stderr.replace("\n", " ")
    flags = ("--knowledge", "shuffled", "--set", "options={vectors: here}", "--steps", 1)
    assert "made beforehand" in finetune(
        world, *flags, "-o", tmp_path, method="ernie"
    ).stderr.replace("\n", " ")
    assert "is not a finished run" in kept("curve", tmp_path, "-o", tmp_path).stderr.replace(
        "\n", " "
    )


def test_examples_are_given_the_spoilt_links(small_graph: KnowledgeGraph) -> None:
    examples = [
        TaskExample(LinkedText("Paris", (gold_link(0, 5, "Q90"),), str(i)), ("r",))
        for i in range(40)
    ]
    for kind, most in (("drop", None), ("random", "Q90")):
        errors = LinkErrors(kind=kind, share=0.5, sets="train")
        corrupted, _ = corrupted_sets({"train": examples, "dev": examples}, errors, small_graph, 0)
        assert corrupted["dev"] == examples
        links = [[link.entity for link in each.linked.links] for each in corrupted["train"]]
        assert sum(entities == ["Q90"] for entities in links) == 20
        assert most is None or all(len(entities) == 1 for entities in links)
        assert [each.labels for each in corrupted["train"]] == [("r",)] * 40


def test_with_a_spread_no_confidence_stays(small_graph: KnowledgeGraph) -> None:
    """Without one a linker that errs is as sure as before; with one it knows in part."""
    texts = [LinkedText("Paris", (gold_link(0, 5, "Q90"),), str(i)) for i in range(200)]
    examples = [TaskExample(text, ("r",)) for text in texts]

    def confidences(spread: float | None) -> dict[bool, list[float]]:
        errors = LinkErrors(kind="swap", share=0.5, spread=spread)
        links = [
            each.linked.links[0] for each in corrupt_links(examples, errors, small_graph, 0)[0]
        ]
        return {
            is_right: [link.confidence for link in links if (link.entity == "Q90") is is_right]
            for is_right in (True, False)
        }

    assert confidences(None) == {True: [1.0] * 100, False: [1.0] * 100}
    unsure = confidences(1.0)
    assert 1.0 not in unsure[True] + unsure[False]
    assert sum(unsure[True]) > sum(unsure[False]) + 10
