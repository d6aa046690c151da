"""`kept finetune`, from files on disk to scores, with a tiny random host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file
from scipy.stats import pearsonr
from typer.testing import CliRunner, Result

from kept.apps.cli import app
from kept.auto import AutoEncoder
from kept.heads.model import KnowledgeForTask
from kept.methods import METHODS
from kept.training.log import read_log
from kg_loaders import KnowledgeGraph
from tests.kept.training.tiny_pretraining import write_everything

PAIRS = [
    ("Q90", "capital of", "Q142"), ("Q64", "capital of", "Q183"), ("Q142", "speaks", "Q150"),
    ("Q183", "speaks", "Q188"), ("Q1471", "flows through", "Q90"), ("Q2", "lies in", "Q183"),
    ("Q90", "lies in", "Q46"), ("Q64", "lies in", "Q46"),
]  # fmt: skip


@pytest.fixture(scope="module")
def trained(world: Path) -> Path:
    """A pre-trained model."""
    assert kept("pretrain", "-c", world / "pretrain.yaml", "-o", world / "run").exit_code == 0
    return world / "run"


def rows(graph: KnowledgeGraph, opening: str) -> list[dict[str, Any]]:
    rows_ = []
    for head, relation, tail in PAIRS:
        names = [graph.label(graph.entities.id(e)).split() for e in (head, tail)]
        token = [opening, *names[0], *relation.split(), *names[1]]
        first = [1, len(token) - len(names[1])]
        arguments = [
            {"id": e, "pos": [start, start + len(name)]}
            for e, start, name in zip((head, tail), first, names, strict=True)
        ]
        rows_.append({"token": token, "h": arguments[0], "t": arguments[1], "relation": relation})
    return rows_


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    folder = tmp_path_factory.mktemp("finetuning")
    pretraining = write_everything(folder, small_graph)
    (folder / "pretrain.yaml").write_text(yaml.safe_dump(pretraining), encoding="utf-8")
    for name, opening in (("train", "the"), ("dev", "old"), ("test", "near")):
        lines = [json.dumps(row) for row in rows(small_graph, opening)]
        (folder / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    texts = [f"{'old' if i % 2 else 'near'} Paris is {i}" for i in range(12)]
    table = "\n".join(f"{'o' if 'old' in text else 'n'}\t{text}" for text in texts)
    (folder / "texts.tsv").write_text(table, encoding="utf-8")
    scored = [f"{i % 4 + 0.25}\t{'old' if i % 2 else 'near'} Paris is {i}" for i in range(24)]
    (folder / "scores.tsv").write_text("\n".join(scored), encoding="utf-8")
    graded = [f"{i % 4}\t{'old' if i % 2 else 'near'} Paris is {i}" for i in range(24)]
    (folder / "grades.tsv").write_text("\n".join(graded), encoding="utf-8")
    words = "\n\n".join(f"the O\nParis B-x\nof O\nFrance B-y\n{i} O" for i in range(8))
    (folder / "words.conll").write_text(words, encoding="utf-8")
    typed = [
        {"sent": f"the Paris is {w}", "start": 4, "end": 9, "labels": labels, "ents": []}
        for w, labels in zip("abcdefgh", [["city"], ["city", "old"]] * 4, strict=True)
    ]
    (folder / "typed.json").write_text(json.dumps(typed), encoding="utf-8")
    return folder


def kept(*flags: object) -> Result:
    return CliRunner().invoke(app, [*map(str, flags)])


def finetune(world: Path, *flags: object, task: str = "relation", method: str = "colake") -> Result:
    files = {
        "relation": ("wiki80", "train.txt", "dev.txt"), "typing": ("tagme", "typed.json", None),
        "classification": ("tsv", "texts.tsv", None), "tagging": ("conll", "words.conll", None),
        "regression": ("scores", "scores.tsv", None),
    }[task]  # fmt: skip
    dev = ["--dev", world / files[2]] if files[2] else ["--set", "dev_share=0.3"]
    source = [] if "--model" in flags else ["--method", method, "--host", world / "host"]
    return kept(
        "finetune", "--task", task, "--format", files[0], "--train", world / files[1], *dev,
        "--kg", world / "kg", *source, "--batch-size", 4, "--threads", 1, "--set",
        "training.device=cpu", "--set", "training.log_every=1", *flags,
    )  # fmt: skip


def test_scores_are_learnt_as_numbers(
    world: Path, tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    result = finetune(
        world, "--epochs", 40, "--lr", 0.01, "--evaluate-every", 50, "--test",
        world / "scores.tsv", "--set", "keep_repeats=true", "-o", tmp_path, task="regression",
        method="none",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    model = KnowledgeForTask.from_pretrained(tmp_path, graph=small_graph)
    assert (model.config.problem_type, model.config.num_labels) == ("regression", 1)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["labels"] == ["score"]
    assert metrics["test"]["n_with_labels_unseen_in_training"] == 0
    for name in ("pearson", "spearman"):
        score = metrics["test"][name]
        assert score["low"] <= score["estimate"] <= score["high"]
        assert metrics["test"]["baseline"][name]["estimate"] == 0
    sides = (metrics["test"], metrics["test"]["baseline"])
    error, of_mean = (side["mean_squared_error"] for side in sides)
    assert error["estimate"] < of_mean["estimate"]
    assert "accuracy" not in metrics["test"]
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    ours, gold = zip(
        *[(float(r["predicted"][0]), float(r["gold"][0])) for r in rows if r["set"] == "test"],
        strict=True,
    )
    assert pearsonr(ours, gold)[0] == pytest.approx(
        metrics["test"]["pearson"]["estimate"], abs=1e-4
    )
    assert "test: pearson" in result.stdout
    assert "mean of training: 0, 0, " in result.stdout
    logged = [row for row in read_log(tmp_path / "log.jsonl") if "pearson" in str(row)]
    assert logged


def test_scores_are_no_classes(world: Path, tmp_path: Path) -> None:
    scores = world / "scores.tsv"
    result = finetune(
        world, "--train", scores, "--steps", 1, "-o", tmp_path / "a", task="classification"
    )
    assert result.exit_code == 1
    assert "numbers with a fraction (0.25, 1.25, 2.25, 3.25)" in result.output.replace("\n", " ")
    assert not (tmp_path / "a" / "model.safetensors").exists()
    grades = world / "grades.tsv"
    result = finetune(
        world, "--train", grades, "--steps", 1, "-o", tmp_path / "b", task="classification",
        method="none",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    metrics = json.loads((tmp_path / "b" / "metrics.json").read_text())
    (warning,) = metrics["warnings"]
    assert warning.startswith(
        "the labels are the numbers 0, 1, 2, 3: they are trained as 4 classes"
    )
    assert "warning: the labels are the numbers 0, 1, 2, 3" in " ".join(result.output.split())


def test_a_run_leaves_a_model_scores_and_answers(
    world: Path, tmp_path: Path, small_graph: KnowledgeGraph
) -> None:
    result = finetune(
        world, "--test", world / "test.txt", "--epochs", 3, "--evaluate-every", 2, "--lr", 0.01,
        "-o", tmp_path,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "step 6 of 6: finished" in result.stdout
    model = KnowledgeForTask.from_pretrained(tmp_path, graph=small_graph)
    assert sorted(model.config.label2id) == sorted({relation for _, relation, _ in PAIRS})
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["n_train"] == metrics["dev"]["n_asked"] == metrics["test"]["n_scored"] == 8
    assert metrics["n_asked_pairs_joined_in_kg"] == 12  # dev and test ask the same six
    assert metrics["n_triples_removed"] == 10
    assert metrics["dev"]["baseline"]["accuracy"]["estimate"] == 3 / 8
    assert 0 <= metrics["dev"]["accuracy"]["low"] <= metrics["dev"]["accuracy"]["high"] <= 1
    answers = [
        json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()
    ]
    assert [(a["set"], a["index"]) for a in answers] == [
        (name, i) for name in ("dev", "test") for i in range(8)
    ]
    right = sum(a["gold"] == a["predicted"] for a in answers if a["set"] == "dev")
    assert metrics["dev"]["accuracy"]["estimate"] == right / 8
    assert "dev: accuracy" in result.stdout
    log = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    scored = [row["scores"] for row in log if row["kind"] == "evaluation"]
    assert [list(row) for row in scored] == [["accuracy", "micro_f1"]] * 3
    written = json.loads((tmp_path / "finetune.json").read_text())
    assert written["graph"]["max_neighbours"] == 15
    assert (written["graph"]["max_words"], written["graph"]["max_nodes"]) == (62, 124)


@pytest.mark.parametrize("task", ["typing", "classification", "tagging"])
@pytest.mark.parametrize("method", METHODS)
def test_every_task_and_method(task: str, method: str, world: Path, tmp_path: Path) -> None:
    knowledge = "true" if METHODS[method].reads == "links" else "off"  # it comes in pre-training
    flags = ["--link", "--steps", 3, "--knowledge", knowledge, "-o", tmp_path]
    result = finetune(world, *flags, task=task, method=method)
    assert result.exit_code == 0, result.output
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["links_in_kg"]["inside"] > 0
    assert metrics["dev"]["n_asked"] + metrics["n_train"] in (8, 12)
    assert {"accuracy", "micro", "baseline"} <= metrics["dev"].keys()
    encoded = AutoEncoder.from_pretrained(tmp_path).encode(["Paris"], kg=world / "kg")
    assert encoded.sentences.isfinite().all()


def test_from_a_pretrained_model_with_controls(world: Path, trained: Path, tmp_path: Path) -> None:
    runs = {}
    for knowledge in ("true", "off", "shuffled"):
        out = tmp_path / knowledge
        result = finetune(
            world, "--model", trained, "--knowledge", knowledge, "--steps", 2, "-o", out
        )
        assert result.exit_code == 0, result.output
        assert f"knowledge {knowledge}" in result.stdout
        runs[knowledge] = load_file(out / "model.safetensors")["head.dense.weight"]
        written = json.loads((out / "finetune.json").read_text())
        assert written["graph"]["max_neighbours"] == 3  # as the model was trained
    assert not runs["true"].equal(runs["off"])
    assert not runs["true"].equal(runs["shuffled"])
    frozen = tmp_path / "frozen"
    flags = ("--model", trained, "--freeze", "encoder", "--steps", 2)
    assert finetune(world, *flags, "-o", frozen).exit_code == 0
    before = load_file(trained / "model.safetensors")
    after = load_file(frozen / "model.safetensors")
    shared = [name for name in before if name.startswith("encoder.")]
    assert shared
    assert all(before[name].equal(after[name]) for name in shared)


def test_a_control_that_changes_nothing_is_refused(
    world: Path, trained: Path, tmp_path: Path
) -> None:
    flags = ("--model", trained, "--knowledge", "off", "--steps", 2, "-o", tmp_path / "run")
    result = finetune(world, *flags, task="typing")  # no link, so nothing to take away
    assert result.exit_code == 1
    assert "changes nothing" in result.stderr.replace("\n", " ")


def test_stopped_and_resumed_it_ends_the_same(world: Path, tmp_path: Path) -> None:
    flags = ("--steps", 5, "--set", "training.seed=3")
    assert finetune(world, *flags, "-o", tmp_path / "whole").exit_code == 0
    cut = finetune(world, *flags, "-o", tmp_path / "cut", "--budget-minutes", 1e-9)
    assert "step 1 of 5: stopped at the time budget" in cut.stdout
    assert not (tmp_path / "cut/metrics.json").exists()
    resumed = kept(
        "finetune", "-o", tmp_path / "cut", "--resume", "--set", "training.budget_minutes=null"
    )
    assert resumed.exit_code == 0, resumed.output
    one, other = (load_file(tmp_path / n / "model.safetensors") for n in ("whole", "cut"))
    assert all(one[name].equal(other[name]) for name in one)
    for name in ("metrics.json", "predictions.jsonl"):
        assert (tmp_path / "whole" / name).read_text() == (tmp_path / "cut" / name).read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--task", "relations"], "task: there is no task 'relations'; did you mean relation"),
        (["--format", "tsv"], "format tsv holds no relation; give one of"),
        (["--knowledge", "false"], "knowledge: "),
        (["--markers", "bold"], "markers: there is no markers 'bold'; there are"),
        (["--method", "colak"], "method: there is no method"),
        (["--model", "."], "give model or method, exactly one"),
        (["--head", "last"], "head: there is no head 'last'; there are"),
        (["--freeze", "hosts"], "has no part 'hosts'"),
        (["--set", "head_options={n_target: 2}"], "has no option 'n_target'"),
        (["--dev", "none.txt"], "none.txt"),
    ],
)
def test_faults_end_in_one_message(
    flags: list[object], message: str, world: Path, tmp_path: Path
) -> None:
    arguments = [
        "--task", "relation", "--format", "wiki80", "--train", world / "train.txt", "--kg",
        world / "kg", "--method", "colake", "--host", world / "host", "--steps", 1,
        "--batch-size", 4,
    ]  # fmt: skip
    result = kept("finetune", *arguments, *flags, "-o", tmp_path / "run")
    assert result.exit_code == 1
    assert message in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.output
    assert not (tmp_path / "run").exists()


def test_texts_of_dev_are_taken_out_of_train(world: Path, tmp_path: Path) -> None:
    same = ("--dev", world / "train.txt", "--steps", 1)
    result = finetune(world, *same, "-o", tmp_path / "run")
    assert result.exit_code == 1
    reason = "nothing is left of the train split: the texts of all"
    assert reason in result.stderr.replace("\n", " ")
    assert "--set keep_repeats=true keeps them" in result.stderr.replace("\n", " ")
    result = finetune(world, *same, "--set", "keep_repeats=true", "-o", tmp_path / "run")
    assert result.exit_code == 0, result.output


def test_pairs_of_texts_are_linked_within_each(world: Path, tmp_path: Path) -> None:
    lines = ["label\ttext_a\ttext_b", *(f"{i % 2}\tthe old City of\tLight {i}" for i in range(6))]
    linked = [f"{i % 2}\tParis {i}\tBerlin" for i in range(12)]
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join([*lines, *linked]), encoding="utf-8")
    files = ("--train", path, "--link", "--steps", 1, "-o", tmp_path / "run")
    result = finetune(world, *files, "--set", "dev_share=0.3", task="classification")
    assert result.exit_code == 0, result.output
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    with_link = metrics["coverage"]["train"]["with_link"]
    assert 0 < with_link < metrics["n_train"]  # "City of Light" is Paris, across the pair not
    assert metrics["links_in_kg"]["links"] == 2 * with_link
