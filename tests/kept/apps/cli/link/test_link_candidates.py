"""Candidates in a linked file: three per link by default; who needs all of them says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from entity_linking.annotations import read_jsonl, to_json
from entity_linking.mentions import Candidate, Link, LinkedText, Mention, n_cut_links
from kept.apps.cli import app
from kept.linking.linkers import LinkerSettings
from kept.linking.stream import Work
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamageReport
from tests.kept.training.tiny_pretraining import write_everything

N_HOMONYMS = 6
FIVE = tuple(Candidate(name, 0.2, 0.0 - i) for i, name in enumerate("abcde"))


def run(*flags: object) -> Result:
    return CliRunner().invoke(app, [*map(str, flags)], env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six people called Anna, with one fact more each."""
    records: list[Any] = []
    for i in range(N_HOMONYMS):
        records += [Triple(f"p{i}", "knows", f"x{j}") for j in range(i + 1)]
        records.append(Text(f"p{i}", TextKind.LABEL, "Anna", "en"))
        records.append(Text(f"x{i}", TextKind.LABEL, f"number {i}", "en"))
    folder = tmp_path_factory.mktemp("candidates") / "kg"
    graph_from_records(records).save(folder)
    return folder


def linked(kg: Path, path: Path, *flags: object) -> LinkedText:
    assert run("link", "Anna left.", "--kg", kg, "-o", path, *flags).exit_code == 0
    (text,) = read_jsonl(path, DamageReport())
    return text


@pytest.mark.parametrize(
    ("flags", "n", "is_cut"),
    [((), 3, True), (("--candidates", "1"), 1, True), (("--candidates", "5"), 5, True),
     (("--candidates", "6"), 6, False), (("--candidates", "all"), 6, False)],
)  # fmt: skip
def test_a_file_holds_the_chosen_entity_and_runners_up(
    kg: Path, tmp_path: Path, flags: tuple[str, ...], n: int, is_cut: bool
) -> None:
    text = linked(kg, tmp_path / "linked.jsonl", *flags)
    (link,) = text.links
    assert (len(link.candidates), link.is_cut) == (n, is_cut)
    assert link.entity == link.candidates[0].entity == "p5"
    assert n_cut_links([text]) == is_cut
    row = json.loads((tmp_path / "linked.jsonl").read_text())
    assert row["mentions"][0].get("n_candidates") == (N_HOMONYMS if is_cut else None)
    assert to_json(text) == (tmp_path / "linked.jsonl").read_bytes().strip()


@pytest.mark.parametrize("value", ["0", "-1", "some", "", "1.5", "²", "10000000"])
def test_other_numbers_are_refused(kg: Path, value: str) -> None:
    done = run("link", "Anna left.", "--kg", kg, "--candidates", value)
    assert done.exit_code == 1
    assert "give a number from 1 on, or all" in done.stderr


@pytest.mark.parametrize(
    ("entity", "most", "names"),
    [("a", 3, "abc"), ("e", 3, "abe"), ("c", 1, "c"), (None, 2, "ab"), ("z", 2, "ab"),
     ("a", 5, "abcde"), ("a", 9, "abcde")],
)  # fmt: skip
def test_the_chosen_one_stays(entity: str | None, most: int, names: str) -> None:
    link = Link(Mention(0, 4), FIVE, entity, 0.2).with_candidates(most)
    assert "".join(c.entity for c in link.candidates) == names
    assert link.entity == entity
    assert link.is_cut is (len(names) < len(FIVE))


def test_a_file_that_is_cut_twice_remembers_the_first_number() -> None:
    link = Link(Mention(0, 4), FIVE, "a", 0.2).with_candidates(3).with_candidates(2)
    assert (len(link.candidates), link.n_found) == (2, 5)


def test_a_resumed_run_with_another_number_is_refused(kg: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    key = Work(LinkerSettings(kg=str(kg)), candidates=3).key(KnowledgeGraph.open(kg))
    (tmp_path / "out.jsonl.part").write_bytes(b"")
    (tmp_path / "out.jsonl.part.json").write_text(json.dumps({"linker": key}))
    done = run("link", "Anna left.", "--kg", kg, "-o", out, "--resume", "--candidates", "all")
    assert "started with another graph or other settings" in done.stderr
    assert run("link", "Anna left.", "--kg", kg, "-o", out, "--resume").exit_code == 0


def test_scores_say_that_recall_is_a_lower_bound(kg: Path, tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text(
        json.dumps({"id": "1", "text": "Anna left.", "mentions": [
            {"start": 0, "end": 4, "entity": "p0"}]})
    )  # fmt: skip
    for flags, is_said in (((), True), (("--candidates", "all"), False)):
        path = tmp_path / f"linked{len(flags)}.jsonl"
        linked(kg, path, *flags)
        done = run("link", "score", gold, path, "--kg", kg)
        assert done.exit_code == 0, done.output
        assert ("fewer candidates than the linker had" in done.stderr) is is_said


@pytest.mark.parametrize(("method", "needs_all"), [("knowbert", True), ("kbert", False)])
def test_pre_training_says_that_candidates_are_missing(
    method: str, needs_all: bool, tmp_path: Path, small_graph: KnowledgeGraph, kg: Path
) -> None:
    settings = write_everything(tmp_path, small_graph)
    (tmp_path / "pretrain.yaml").write_text(yaml.safe_dump(settings))
    options = {"vector_epochs": 1} if method == "knowbert" else {}
    for flags, name in (((), "three"), (("--candidates", "all"), "all")):
        path = tmp_path / f"{name}.jsonl"
        lines = tmp_path / "texts.txt"
        lines.write_text("Anna left.\nAnna came back.\n" * 4)
        assert run("link", lines, "--kg", kg, "-o", path, *flags).exit_code == 0
        done = run(
            "pretrain", "-c", tmp_path / "pretrain.yaml", "--method", method, "--kg", kg, "--text",
            path, "--steps", 1, "--set", f"options={json.dumps(options)}", "-o", tmp_path / name,
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        is_said = "link again with `kept link --candidates all`" in " ".join(done.stderr.split())
        assert is_said is (needs_all and name == "three")
