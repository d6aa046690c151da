"""`kept fit` on questions with answers: the choice, controls, refusals, the folder, its errors."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import kept
from entity_linking.mentions import Mention
from kept.apps.cli import app
from kept.decoders.answering.answer import LEAST_CONFIDENCE, Answer
from kept.errors import CheckpointError, ConfigError
from kept.lab.fitting.options import FitOptions
from kept.lab.fitting.run import FitResult
from kept.lab.fitting.run import fit as fit_texts
from kept.lab.fitting.search import Candidate, Trial
from kept.lab.questions import fitted, fitting
from kept.lab.questions.fitted import EntityQuestion, FittedAnswerer, answers_questions
from kept.lab.questions.fitting import (
    LabelledQuestion,
    best_threshold,
    choice_of,
    fit,
    ways_of,
)
from kept.tasks.datasets.tables import QUESTION, read_labelled
from tests.kept.lab.fitting.private_worlds import questions
from tests.kept.tiny_chat import WordVectors, chat_tokenizer
from tests.kept.tiny_decoders import tiny_decoder


class KeywordVectors(WordVectors):
    """Those of the words that say what is asked."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        words = [re.findall(r"position|town", text) or ["other"] for text in texts]
        return super().encode([" ".join(keywords) for keywords in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, a table of questions and a tiny decoder that has a piece for every word."""
    folder = tmp_path_factory.mktemp("questions")
    world = questions(40, 0)
    world.write(folder)
    labels = [world.graph.label(i) for i in range(world.graph.n_entities)]
    texts = [" ".join(row) for row in world.rows]
    sentences = [f" The position of {each} is" for each in labels] + [
        f" {each}." for each in labels
    ]
    tokenizer = chat_tokenizer([*texts, *sentences, " town Question: Answer:"])
    decoder = tiny_decoder("llama", vocab_size=len(tokenizer), max_position_embeddings=256)
    decoder.save_pretrained(folder / "decoder")
    tokenizer.save_pretrained(folder / "decoder")
    return folder


@pytest.fixture(autouse=True)
def word_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (fitted, fitting):
        monkeypatch.setattr(module, "sentence_encoder", lambda n=2: KeywordVectors())


def options(folder: Path, output: Path, **fields: Any) -> FitOptions:
    values = {
        "data": folder / "data.csv", "kg": folder / "kg", "output": output,
        "host": str(folder / "decoder"),
    }  # fmt: skip
    return FitOptions.read(None, values | fields)


@pytest.fixture(scope="module")
def result(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> FitResult:
    output = tmp_path_factory.mktemp("fit") / "run"
    return fit(options(folder, output), encoder=KeywordVectors())


def test_the_values_of_the_graph_are_chosen_and_the_controls_show_why(result: FitResult) -> None:
    assert (result.kind, result.method) == ("question", "values")
    assert result.scores["chosen"] >= 0.85
    assert result.scores["none"] < 0.2
    assert result.scores["wrong facts"] < 0.4
    assert result.scores["refused without it"] >= 0.8
    assert result.scores["refused with the fact"] <= 0.1
    assert result.verdict.key == "decides"
    assert {trial.candidate.method for trial in result.trials} == set(fitted.WAYS)
    stored = json.loads((result.output / "fit.json").read_text(encoding="utf-8"))
    assert stored["scores"] == result.scores
    assert not (result.output / "search").exists()


def test_each_answer_to_test_is_written(result: FitResult) -> None:
    lines = (result.output / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    share = sum(row["is_right"] for row in rows) / len(rows)
    assert share == pytest.approx(result.scores["chosen"])
    assert all(bool(row["values"]) != bool(row["refusal"]) for row in rows)
    wrong = [row for row in rows if not row["is_right"]]
    assert all(row["refusal"] or row["values"] != row["answers"] for row in wrong)


def test_the_folder_answers_new_questions_over_a_changed_graph(
    result: FitResult, folder: Path
) -> None:
    graph = kept.KnowledgeGraph.open(folder / "kg")
    answerer = FittedAnswerer.open(result.output)
    row = read_labelled(folder / "data.csv").examples[1]
    answer = answerer.answer(row.linked.text)
    assert answer.values == row.labels
    assert answer.facts[0][1:] == ("town", row.labels[0])
    without_facts = graph.with_triples(graph.triples[:0], note="no fact")
    refusal = FittedAnswerer.open(result.output, without_facts).answer(row.linked.text)
    assert refusal.refusal
    assert answers_questions(result.output)


@pytest.mark.parametrize("command", ["predict", "ask"])
def test_predict_and_ask_open_the_folder(result: FitResult, folder: Path, command: str) -> None:
    row = read_labelled(folder / "data.csv").examples[3]
    kg = ["--kg", str(folder / "kg")]
    words = {
        "predict": [str(result.output), row.linked.text, *kg, "--json"],
        "ask": [row.linked.text, *kg, "--run", str(result.output), "--json"],
    }[command]
    done = CliRunner().invoke(app, [command, *words])
    assert done.exit_code == 0, done.output
    assert tuple(json.loads(done.stdout)["values"]) == row.labels
    more = {"predict": ["--explain"], "ask": ["--decoder", "smollm2"]}[command]
    refusal = CliRunner().invoke(app, [command, *words, *more])
    assert refusal.exit_code == 1
    assert more[0] in refusal.output or "leave the options out" in refusal.output


def test_a_decoder_chooses_among_the_values_in_view(folder: Path, tmp_path: Path) -> None:
    for way in ("words", "branches", "nodes"):
        fitted = fit(options(folder, tmp_path / way, methods=way), encoder=KeywordVectors())
        by_way = {trial.candidate.method: trial for trial in fitted.trials}
        assert set(by_way) == {"none", way}
        assert not by_way[way].error
        assert by_way[way].score > by_way["none"].score  # one of two values, not of all words


def test_the_command_prints_the_verdict_and_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [
        "fit", str(folder / "data.csv"), "--kg", str(folder / "kg"), "-o", str(tmp_path / "run"),
        "--host", str(folder / "decoder"), "--methods", "values,words",
    ]  # fmt: skip
    real, tried = fitting._QuestionFit._tried, []

    def stopped(self: Any, way: str, n: int) -> Trial:
        tried.append(way)
        if way == "words" and tried.count("words") == 1:
            raise KeyboardInterrupt
        return real(self, way, n)

    monkeypatch.setattr(fitting._QuestionFit, "_tried", stopped)
    assert CliRunner().invoke(app, words).exit_code != 0
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert tried == ["none", "values", "words", "words"]
    assert "task: questions with answers" in done.output
    assert "Knowledge decides" in done.output
    assert "refused without it " in done.output
    assert "kept ask" in (tmp_path / "run/README.md").read_text(encoding="utf-8")
    again = CliRunner().invoke(app, words)
    assert "give a new folder" in again.output


def test_a_table_may_name_the_entity_and_several_answers(tmp_path: Path, folder: Path) -> None:
    graph = kept.KnowledgeGraph.open(folder / "kg")
    name, town = graph.label(graph.entities.id("P3")), graph.entities.id("town")
    path = tmp_path / "a.jsonl"
    rows = [
        {"question": f"Where does {name} live?", "answer": ["x", "y"], "entity": name},
        {"question": "Where does she live?", "answer": "x|y", "entity": "P3"},
        {"question": f"Where does {name} live?", "answer": "x", "entity": "Nobody Known"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    table = read_labelled(path)
    assert table.kind == QUESTION
    first, second, third = table.examples
    assert first.labels == second.labels == ("x", "y")
    item = fitting.labelled(first, graph)
    assert item.question.entity == "P3"
    assert item.question.text[item.question.name.start : item.question.name.end] == name
    assert item.relation is None
    whole = fitting.labelled(second, graph).question
    assert whole.name == Mention(0, len(whole.text))
    with pytest.raises(ConfigError, match="Nobody Known"):
        fitting.labelled(third, graph)
    assert town >= 0


@pytest.mark.parametrize(
    ("row", "fault"),
    [("question,answer\nWho?,\n", "no answer"), ("question,answer\n,x\n", "no question")],
)
def test_faulty_rows_are_named_with_their_line(tmp_path: Path, row: str, fault: str) -> None:
    (tmp_path / "a.csv").write_text(row, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"a\.csv:2: {fault}"):
        read_labelled(tmp_path / "a.csv")


def test_questions_are_no_classes(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"kept\.lab\.questions\.fitting\.fit"):
        fit_texts(options(folder, tmp_path / "run"))
    arguments = [
        "finetune", "--task", "classification", "--format", "table", "--train",
        str(folder / "data.csv"), "--kg", str(folder / "kg"), "--method", "none", "--steps", "1",
        "--batch-size", "2", "-o", str(tmp_path / "task"),
    ]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert "use `kept fit`" in " ".join(done.output.split())


def test_a_choice_is_one_of_more_than_chance() -> None:
    base = Trial(Candidate("none"), 0, 0.5, 1.0, {0: True, 1: False})
    lucky = Trial(Candidate("values"), 0, 1.0, 1.0, {0: True, 1: True})
    assert choice_of([base, lucky]).chosen == Candidate("none")
    many = dict.fromkeys(range(12), True)
    sure = Trial(Candidate("words"), 0, 1.0, 1.0, many)
    none = Trial(Candidate("none"), 0, 0.0, 1.0, dict.fromkeys(many, False))
    assert choice_of([none, sure]).chosen == Candidate("words")
    broken = Trial(Candidate("nodes"), 0, 0.0, 1.0, error="no room")
    assert choice_of([none, broken]).rival is None


def test_a_confidence_parts_known_from_missing() -> None:
    assert best_threshold([], [0.2]) == LEAST_CONFIDENCE
    assert best_threshold([0.9, 0.8], [0.2, 0.1]) == LEAST_CONFIDENCE  # as good, and nearer
    assert 0.2 < best_threshold([0.3, 0.35], [0.2, 0.1]) < 0.3


def test_more_values_than_answers_are_not_right() -> None:
    question = LabelledQuestion(EntityQuestion("Who?", None, Mention(0, 4)), ("Ann", "Bo"))
    assert question.is_right(Answer("Who?", ("bo",)), "values")
    assert question.is_right(Answer("Who?", ("Ann", "Cy")), "values")
    assert not question.is_right(Answer("Who?", ("Ann", "Bo", "Cy")), "values")
    assert not question.is_right(Answer("Who?", refusal="not in the graph"), "values")
    assert question.is_right(Answer("Who?", (" Ann.",)), "none")
    assert not question.is_right(Answer("Who?", ("Anna",)), "none")


def test_unknown_ways_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="word"):
        ways_of("wrods")
    with pytest.raises(CheckpointError, match="kept fit"):
        FittedAnswerer.open(tmp_path)
