"""`kept link score` and `kept link corrupt`, as plain commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from entity_linking import LinkedText, gold_link, read_jsonl, write_jsonl
from entity_linking.corruption import corrupt as corrupt_links
from entity_linking.scoring import report
from kept.apps.cli.link.corrupt import corrupt
from kept.apps.cli.link.score import score
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport

app = typer.Typer()
app.command("score")(score)
app.command("corrupt")(corrupt)
GOLD = [
    LinkedText("Paris, Bonn", (gold_link(0, 5, "Q90"), gold_link(7, 11, "Q2"))),
    LinkedText("Rome", (gold_link(0, 4, "Q220"),)),
]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture
def files(tmp_path: Path, small_graph: KnowledgeGraph) -> Path:
    small_graph.save(tmp_path / "kg")
    write_jsonl(GOLD, tmp_path / "gold.jsonl")
    predicted = [
        LinkedText("Paris, Bonn", (gold_link(0, 5, "Q90"), gold_link(0, 11, "Q2"))),
        GOLD[1],
    ]
    write_jsonl(predicted, tmp_path / "found.jsonl")
    return tmp_path


def test_scores_as_a_table_and_as_json(files: Path) -> None:
    result = run("score", files / "gold.jsonl", files / "found.jsonl", "--kg", files / "kg")
    assert result.exit_code == 0, result.output
    assert "2 texts\n" in result.output
    assert "| strong micro F1 | 0.500 |" in result.output
    assert "| weak micro F1 | 1.000 |" in result.output
    assert "| accuracy, all | 0.333 |" in result.output
    assert "| accuracy, in graph | 0.500 |" in result.output
    assert "| degree in the graph | mentions |" in result.output
    result = run("score", files / "gold.jsonl", files / "found.jsonl", "--json", "--gold-spans")
    parsed = json.loads(result.output)
    values = {each["name"]: each["value"] for each in parsed["scores"]}
    assert values["strong micro precision"] == 1.0
    assert values["strong micro recall"] == pytest.approx(2 / 3)
    assert parsed["gold_spans_only"] is True


def test_score_draws_its_intervals_by_the_seed(files: Path) -> None:
    gold, predicted = [], []
    for i in range(12):  # texts with 1 to 4 links, of which some are wrong
        links = [gold_link(2 * k, 2 * k + 1, f"Q{k}") for k in range(1 + i % 4)]
        wrong = [gold_link(2 * k, 2 * k + 1, f"Q{k + i % 3}") for k in range(1 + i % 4)]
        gold.append(LinkedText("a b c d", tuple(links), id=str(i)))
        predicted.append(LinkedText("a b c d", tuple(wrong[: 1 + i % 2]), id=str(i)))
    write_jsonl(gold, files / "many.jsonl")
    write_jsonl(predicted, files / "predicted.jsonl")
    texts = []
    for seed in ("0", "1", "2", "3"):
        options = ("--json", "--seed", seed)
        result = run("score", files / "many.jsonl", files / "predicted.jsonl", *options)
        expected = report(
            gold, predicted, known=None, gold_spans_only=False, seed=int(seed)
        ).to_json()
        assert json.loads(result.output) == json.loads(expected)
        texts.append(result.output)
    assert len({*texts}) > 1


def test_types_with_as_many_mentions_are_sorted_by_name(files: Path) -> None:
    labels = [{"span": [0, 5], "entity_id": "Q90", "type": "Q9|Q1|Q5"}]
    article = {"id": 1, "text": "Paris, Bonn", "labels": labels}
    (files / "e.jsonl").write_text(json.dumps(article), encoding="utf-8")
    write_jsonl([GOLD[0]], files / "one.jsonl")
    result = run("score", files / "e.jsonl", files / "one.jsonl", "--elevant", "--json")
    assert result.exit_code == 0, result.output
    bins = dict(json.loads(result.output)["bins"])
    assert [name for name, _ in bins["type"]] == ["Q1", "Q5", "Q9"]


def test_an_entity_that_is_not_in_the_graph_has_degree_0(files: Path) -> None:
    """Q220 of the gold links is no entity of the graph."""
    result = run("score", files / "gold.jsonl", files / "found.jsonl", "--kg", files / "kg")
    rows = result.output.split("| degree in the graph |")[1].splitlines()
    assert any(row.startswith("| 0 | 1 |") for row in rows), rows


def test_elevant_gold_is_scored_by_type(files: Path) -> None:
    labels = [{"span": [0, 5], "entity_id": "Q90", "type": "Q486972|Q43229"}]
    article = {"id": 1, "text": "Paris, Bonn", "labels": labels}
    (files / "e.jsonl").write_text(json.dumps(article), encoding="utf-8")
    write_jsonl([GOLD[0]], files / "one.jsonl")
    result = run("score", files / "e.jsonl", files / "one.jsonl", "--elevant")
    assert result.exit_code == 0, result.output
    assert "| Q43229 | 1 | 1.000 | 1.000 |" in result.output


def test_the_seed_chooses_the_links(files: Path) -> None:
    """Those of the function with that seed; over a few seeds not always the same."""
    texts = [LinkedText("Paris", (gold_link(0, 5, "Q90"),), id=str(i)) for i in range(12)]
    write_jsonl(texts, files / "many.jsonl")
    files_of_seeds = []
    for seed in range(3):
        out = files / f"seed{seed}.jsonl"
        arguments = (
            "corrupt",
            files / "many.jsonl",
            "-o",
            out,
            "--drop",
            ".5",
            "--seed",
            str(seed),
        )
        assert run(*arguments).exit_code == 0
        expected, _ = corrupt_links(texts, drop=0.5, seed=seed)
        files_of_seeds.append(list(read_jsonl(out, DamageReport())))
        assert files_of_seeds[-1] == expected
    assert files_of_seeds[0] != files_of_seeds[1] != files_of_seeds[2]


def test_links_are_corrupted_in_a_file(files: Path) -> None:
    out = files / "worse.jsonl"
    result = run(
        "corrupt", files / "gold.jsonl", "-o", out, "--drop", ".34", "--swap", ".33",
        "--seed", "3", "--kg", files / "kg",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "1 dropped, 1 swapped (1 " in result.output
    corrupted = list(read_jsonl(out, DamageReport()))
    right = {(t.text, k.mention): k.entity for t in GOLD for k in t.links}
    same = [right[t.text, k.mention] == k.entity for t in corrupted for k in t.links]
    assert sorted(same) == [False, True]
