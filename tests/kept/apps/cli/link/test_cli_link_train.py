from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from entity_linking import DictionaryLinker, LinkedText, gold_link, write_jsonl
from entity_linking.calibration.fitting import load_decision, save_decision
from entity_linking.errors import LinkingError
from entity_linking.scorers.mix import default_scorers
from entity_linking.scorers.reranker import Reranker
from kept.apps.cli import app as kept_app
from kept.apps.cli.link.train import train
from kept.linking.linkers import LinkerSettings, open_linker
from kg_loaders import KnowledgeGraph

app = typer.Typer()
app.command()(train)


@pytest.fixture
def gold(small_graph: KnowledgeGraph, tmp_path: Path) -> Path:
    small_graph.save(tmp_path / "kg")
    texts = []
    for i in range(40):
        texts.append(LinkedText(f"Paris, France, {i}", (gold_link(0, 5, "Q90"),), f"a{i}"))
        texts.append(LinkedText(f"Paris, Texas, {i}", (gold_link(0, 5, "Q830149"),), f"b{i}"))
        texts.append(LinkedText(f"Paris the singer {i}", (gold_link(0, 5, None),), f"c{i}"))
    write_jsonl(texts, tmp_path / "gold.jsonl")
    return tmp_path / "gold.jsonl"


def test_train_and_use(small_graph: KnowledgeGraph, gold: Path) -> None:
    folder = gold.parent
    arguments = [str(gold), "--kg", str(folder / "kg"), "-o", str(folder / "model")]
    result = CliRunner().invoke(app, [*arguments, "--held-out", "0.2", "--seed", "3"])
    assert result.exit_code == 0, result.output
    assert (
        "held-out accuracy, NIL an answer: 1.0000; the best prior, never NIL: 0." in result.output
    )
    model = Reranker.open(folder / "model", default_scorers(small_graph))
    assert (model.record.trained_on, model.record.settings.seed) == ("gold.jsonl", 3)
    assert model.record.graph_hash == small_graph.content_hash
    texts = DictionaryLinker(small_graph).link(["Paris, France", "Paris, Texas"])
    best = [
        max(zip(scores[0], text.links[0].candidates, strict=True), key=lambda pair: pair[0])[1]
        for text, scores in zip(texts, model.scores(texts), strict=True)
    ]
    assert [c.entity for c in best] == ["Q90", "Q830149"]

    again = CliRunner().invoke(app, [*arguments, "--held-out", str(gold), "--force"])
    assert again.exit_code == 0, again.output
    assert "120 held out" in again.output


def test_kinds_of_text_and_a_decision_for_others(small_graph: KnowledgeGraph, gold: Path) -> None:
    folder = gold.parent
    other = folder / "other.jsonl"
    other.write_text(gold.read_text().replace("Paris, France", "Paris of France"))
    arguments = ["--kg", str(folder / "kg"), "-o", str(folder / "model"), "--held-out", "0.2"]
    more = ["--also", str(other), "--decision", str(folder / "decision.json")]
    result = CliRunner().invoke(app, [str(gold), *arguments, *more])
    assert result.exit_code == 0, result.output
    assert "on a kind of text that was held out" in result.output
    model = Reranker.open(folder / "model", default_scorers(small_graph))
    assert model.record.trained_on == "gold.jsonl, other.jsonl"
    fitted = load_decision(folder / "decision.json", small_graph)
    assert (fitted.scorer, fitted.fitted_on) == (repr(model), "gold.jsonl, other.jsonl")
    assert fitted.decision.curve
    settings = LinkerSettings(
        kg=str(folder / "kg"),
        method="trained",
        model=str(folder / "model"),
        decision=str(folder / "decision.json"),
    )
    linked = open_linker(settings, small_graph).link(["Paris, France"])
    assert linked[0].links[0].entity == "Q90"
    assert linked[0].links[0].confidence < 1.0
    for name in ("gold.jsonl", "other.jsonl"):
        assert re.search(rf"^{name} held out: 0\.\d+ of the names linked, ", result.output, re.M)

    texts = folder / "texts.txt"
    calibrate = ["link", "calibrate", str(texts), "--kg", str(folder / "kg"), "--method", "trained"]
    calibrate += ["--model", str(folder / "model"), "--like", str(folder / "decision.json")]
    confidences = {}
    for name, lines in {
        "known": "Paris, France\n" * 9,
        "hardly known": "Paris, France\n" + "Paris the singer\n" * 8,
    }.items():
        texts.write_text(lines)
        out = folder / f"{name}.json"
        adapted = CliRunner().invoke(kept_app, [*calibrate, "-o", str(out)])
        assert adapted.exit_code == 0, adapted.output
        assert f"in {len(lines.splitlines())} texts are linked" in adapted.output
        linked_anew = open_linker(replace(settings, decision=str(out)), small_graph).link(
            ["Paris, France"]
        )
        assert linked_anew[0].links[0].entity == "Q90"
        confidences[name] = linked_anew[0].links[0].confidence
    assert confidences["known"] > confidences["hardly known"] + 0.1
    refused = CliRunner().invoke(kept_app, [*calibrate, "--find", "-o", str(folder / "no.json")])
    assert refused.exit_code
    assert "--like reads no annotations, which --find needs" in refused.output
    alone = folder / "alone.json"
    save_decision(replace(fitted, above_linked=None), alone)
    wrong = [str(alone) if each.endswith("decision.json") else each for each in calibrate]
    refused = CliRunner().invoke(kept_app, [*wrong, "-o", str(folder / "no.json")])
    assert "not for other kinds of text" in refused.output
    link = ["link", str(texts), "--kg", str(folder / "kg"), "--method", "trained"]
    link += ["--model", str(folder / "model"), "--decision"]
    for path, meaning in (
        (folder / "decision.json", "calibrated for other kinds of text than gold.jsonl"),
        (folder / "known.json", "calibrated on gold.jsonl, other.jsonl; adapted to texts.txt"),
    ):
        assert meaning in CliRunner().invoke(kept_app, [*link, str(path)]).output


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--held-out", "gold.txt"], "'gold.txt' is neither a file nor a share"),
        (["--held-out", "1.5"], "share is 1.5"),
        (["--absent", "maybe"], "--absent is 'maybe'"),
        (["--decision", "made.json"], "--decision is for text of another kind"),
        (["--also", "gold.jsonl"], "--also names a file twice"),
        (["--networks", "3"], "3 networks without hidden units are one"),
    ],
)
def test_wrong_options_are_told(more: list[str], message: str, gold: Path) -> None:
    folder = gold.parent
    arguments = [str(gold), "--kg", str(folder / "kg"), "-o", str(folder / "model")]
    result = CliRunner().invoke(app, [*arguments, *more])
    assert isinstance(result.exception, LinkingError)
    assert message in str(result.exception)
    assert not (folder / "model").exists()
