"""What the panes are told: links and why, forms of methods, what was used, what if."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from entity_linking import RelationExample
from entity_linking.annotations import read_jsonl
from kept.apps.cli import app
from kept.apps.explorer.changes import changed_graph
from kept.apps.explorer.explorer import Explorer
from kept.apps.explorer.opening import read_texts
from kept.apps.explorer.page import static_page
from kept.apps.explorer.questions import Change, Choice, NameQuestion, Question
from kept.errors import ConfigError
from kept.methods import METHODS
from kept.training.finetuning.predictor import Predictor
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError, UnknownNodeError
from tests.kept.hostile_world import TEXT

PARIS = (24, 29)


# ---- 1 text ----------------------------------------------------------------
def test_links_have_runners_up_and_reasons(explorer: Explorer) -> None:
    answer = explorer.link(Question(TEXT))
    assert [link["words"] for link in answer["links"]] == ["Seine", "Paris", "Paris"]
    paris = answer["links"][1]
    assert (paris["start"], paris["end"]) == PARIS
    assert {each["entity"] for each in paris["candidates"]} == {"Q1", "Q3"}
    assert all("Paris" in each["why"] for each in paris["candidates"])
    assert sum(each["confidence"] for each in paris["candidates"]) == pytest.approx(1)


def test_a_choice_counts_in_every_pane(explorer: Explorer) -> None:
    choices = (Choice(*PARIS, "Q3"),)
    linked = explorer.link(Question(TEXT, choices=choices))["links"]
    assert (linked[1]["entity"], linked[1]["confidence"]) == ("Q3", 1.0)
    before = explorer.read(Question(TEXT, "ernie"))["svg"]
    after = explorer.read(Question(TEXT, "ernie", choices=(Choice(*PARIS, None),)))["svg"]
    assert before.count(">Paris</text>") == after.count(">Paris</text>") + 1


def test_a_choice_may_be_a_label(explorer: Explorer) -> None:
    label = explorer.graph["Q4"].label
    by_label = explorer.link(Question(TEXT, choices=(Choice(*PARIS, label),)))
    assert by_label["links"][1]["entity"] == "Q4"
    assert by_label == explorer.link(Question(TEXT, choices=(Choice(*PARIS, "Q4"),)))


def test_choices_that_fit_nothing_are_refused(explorer: Explorer) -> None:
    with pytest.raises(ConfigError, match="no mention can be at characters 25 to 28"):
        explorer.correct(Question(TEXT, choices=(Choice(25, 28, "Q1"),)))
    with pytest.raises(UnknownNodeError, match=r"no entity of .* 'Q99'"):
        explorer.correct(Question(TEXT, choices=(Choice(*PARIS, "Q99"),)))
    assert explorer.gold is not None
    assert not explorer.gold.exists()


def test_a_mention_that_was_missed_is_added(explorer: Explorer) -> None:
    text = "In PARIS the France of old met Seine."
    new_links = explorer.link(Question(text))["links"]
    assert "of old" not in [link["words"] for link in new_links]
    added = (Choice(20, 26, "Q4"), Choice(3, 8, None))
    links = explorer.link(Question(text, choices=added))["links"]
    by_words = {link["words"]: link for link in links}
    assert (by_words["of old"]["entity"], by_words["of old"]["candidates"]) == ("Q4", [])
    assert {each["entity"] for each in by_words["PARIS"]["candidates"]} == {"Q1", "Q3"}
    for places in ([(0, 3), (2, 5)], [(30, 99)], [(5, 5)], [(19, 22), (20, 26)]):
        with pytest.raises(ConfigError, match="no mention can be at"):
            explorer.link(Question(text, choices=tuple(Choice(*p, None) for p in places)))


def test_corrections_are_gold_links_that_score_and_train_take(
    explorer: Explorer, hostile: Path, tmp_path: Path
) -> None:
    gold = tmp_path / "gold.jsonl"
    other = '{"id":"x","text":"Other.","mentions":[{"start":0,"end":5,"entity":null}]}'
    gold.write_text(other + "\n")
    explorer.correct(Question(TEXT, choices=(Choice(*PARIS, "Q1"),)))
    choices = (Choice(*PARIS, "Q3"), Choice(35, 40, None))
    corrected = explorer.correct(Question(TEXT, choices=choices))
    assert (corrected["n_texts"], corrected["n_links"]) == (2, 3)
    assert gold.read_text().splitlines()[0] == other
    kept = list(read_jsonl(gold, DamageReport()))
    assert [(text.text, [link.entity for link in text.links]) for text in kept] == [
        ("Other.", [None]), (TEXT, ["Q3", None])
    ]  # fmt: skip
    kg, linked = str(hostile / "kg"), str(tmp_path / "linked.jsonl")
    for line in (
        ["link", str(gold), "--kg", kg, "-o", linked],
        ["link", "score", str(gold), linked, "--kg", kg],
        ["link", "train", str(gold), "--kg", kg, "--held-out", str(gold), "-o",
         str(tmp_path / "reranker")],
    ):  # fmt: skip
        done = CliRunner().invoke(app, line)
        assert done.exit_code == 0, done.output
    explorer.correct(Question(TEXT))
    assert gold.read_text() == other + "\n"


def test_a_file_that_holds_no_annotations_is_not_touched(
    explorer: Explorer, tmp_path: Path
) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text("my diary\n")
    with pytest.raises(ConfigError, match="line 1 is not an annotated text"):
        explorer.correct(Question(TEXT, choices=(Choice(*PARIS, "Q1"),)))
    assert gold.read_text() == "my diary\n"


def test_names_are_looked_up(explorer: Explorer) -> None:
    answer = explorer.names(NameQuestion("Paris"))["entities"]
    assert {each["entity"] for each in answer} == {"Q1", "Q3"}
    assert explorer.names(NameQuestion("Q4"))["entities"][0]["label"] == "France"
    assert explorer.names(NameQuestion("nobody at all"))["entities"] == []


# ---- 2 graph ---------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_picture(explorer: Explorer, method: str) -> None:
    reading = explorer.read(Question(TEXT, method))
    assert reading["svg"].startswith("<svg")
    assert "<img" not in reading["svg"]
    assert "<script" not in reading["svg"]
    assert reading["answer"] is None
    is_read = [each for each in reading["facts"] if each["read"]]
    in_words = METHODS[method].view is not METHODS["qagnn"].view  # facts as edges have no node
    assert bool(is_read) == (
        METHODS[method].shows_facts and METHODS[method].reads_facts and in_words
    )


def test_nobody_of_that_name(explorer: Explorer) -> None:
    with pytest.raises(ConfigError, match="there is no model called 'bert'"):
        explorer.read(Question(TEXT, "bert"))


# ---- 3 what was used -------------------------------------------------------
def test_what_was_used_is_what_predict_explains(
    with_run: Explorer, examples: list[RelationExample], finetuned: Path
) -> None:
    text = examples[50].linked.text
    prediction = with_run.used(Question(text, "run0"))
    expected = Predictor.from_pretrained(finetuned / "run").explain(text, finetuned / "kg")
    assert prediction["label"] == expected.label
    influences = [(each["what"], each["change"]) for each in prediction["influences"]]
    assert influences == [(each.what, each.change) for each in expected.influences]
    facts = [each["fact"] for each in prediction["influences"] if each["kind"] == "fact"]
    assert facts
    graph = KnowledgeGraph.open(finetuned / "kg")
    assert all(graph.entities.find(fact[0]) is not None for fact in facts)
    answer = with_run.read(Question(text, "run0"))["answer"]
    assert answer["label"] == expected.label
    scores = {each["name"]: each["score"] for each in answer["scores"]}
    assert scores == pytest.approx(expected.scores)


def test_a_method_without_weights_has_no_answer(explorer: Explorer) -> None:
    with pytest.raises(ConfigError, match="give a run of kept finetune as --model"):
        explorer.used(Question(TEXT, "kbert"))


# ---- 4 what if -------------------------------------------------------------
def test_the_answer_after_a_fact_is_gone_is_the_one_without_it(
    with_run: Explorer, examples: list[RelationExample]
) -> None:
    text = examples[50].linked.text
    used = with_run.used(Question(text, "run0"))
    facts = with_run.read(Question(text, "run0"))["facts"]
    before = {tuple(each["fact"]) for each in facts if each["read"]}
    n_compared = 0
    for one in used["influences"]:
        if one["kind"] == "link":
            continue
        change = Change("delete", tuple(one["fact"]))
        outcome = with_run.what_if(Question(text, "run0", changes=(change,)))
        assert outcome["moved"] == {"gone": 1, "new": 0}
        after = {tuple(each["fact"]) for each in outcome["after"]["facts"] if each["read"]}
        if after == before - {tuple(one["fact"])}:  # else the next fact took its place
            scores = {each["name"]: each["score"] for each in outcome["after"]["answer"]["scores"]}
            assert scores[used["about"]] == pytest.approx(one["score"], abs=1e-6)
            n_compared += 1
    assert n_compared
    again = with_run.used(Question(text, "run0"))
    assert again == used, "the graph itself stays"


def test_facts_are_deleted_added_edited_and_shuffled(explorer: Explorer) -> None:
    graph = explorer.graph
    near = ("Paris of no one", "near", "Seine")
    gone = changed_graph(graph, [Change("delete", ("Q1", "near", "Seine"))])
    assert gone.n_triples == graph.n_triples - 1
    back = changed_graph(gone, [Change("add", ("Q1", "P1", "Q2"))])
    assert np.array_equal(back.triples, graph.triples)
    edited = changed_graph(graph, [Change("edit", ("Q1", "P1", "Q2"), tail="France")])
    assert edited.contains(_ids(graph, "Q1", "P1", "Q4")).all()
    assert not edited.contains(_ids(graph, "Q1", "P1", "Q2")).any()
    one, other = (changed_graph(graph, [Change("shuffle", seed=s)]).triples for s in (1, 1))
    assert np.array_equal(one, other)
    assert gone.id_space_hash == graph.id_space_hash
    for change, words in (
        (Change("delete", near), "no entity is called 'Paris of no one'"),
        (Change("delete", ("Paris", "near", "Seine")), "2 entities are called 'Paris'"),
        (Change("add", ("Q1", "P1", "Q2")), "in the graph already"),
        (Change("edit", ("Q1", "P1", "Q2"), tail="Q2"), "in the graph already"),
        (Change("delete", ("Q3", "P1", "Q2")), "not in the graph"),
        (Change("delete", ("Q3", "P9", "Q2")), "relations are called 'P9'"),
        (Change("delete"), "say which"),
    ):
        with pytest.raises(ConfigError, match=words):
            changed_graph(graph, [change])


def _ids(graph: KnowledgeGraph, *names: str) -> Any:
    head, relation, tail = names
    ids = graph.entities.find(head), graph.relations.find(relation), graph.entities.find(tail)
    return np.array([ids], np.int32)


# ---- a file, the command line ----------------------------------------------
def test_the_page_as_a_file_carries_its_answers(with_run: Explorer, finetuned: Path) -> None:
    texts = [line.split("\t")[1] for line in (finetuned / "train.tsv").read_text().splitlines()[:2]]
    page = static_page(with_run, texts)
    assert "http:" not in page.replace("http://www.w3.org/2000/svg", "")
    data = json.loads(page.split('<script type="application/json" id="data">')[1].split("<")[0])
    n_readers = len(METHODS) + 1
    answers = json.loads(gzip.decompress(base64.b64decode(data["answers"])))
    assert len(answers) == 2 * (1 + n_readers + 1)
    used = answers[f"used|run0|{texts[0]}"]
    assert used == json.loads(json.dumps(with_run.used(Question(texts[0], "run0"))))


def test_a_page_of_many_texts_is_small(with_run: Explorer, finetuned: Path) -> None:
    """Of 120 sentences under 3 MB, where the same drawings as they are take six times as much."""
    lines = (finetuned / "train.tsv").read_text().splitlines()
    texts = list(dict.fromkeys(line.split("\t")[1] for line in lines))[:12]
    page = static_page(with_run, texts)
    assert len(page.encode()) < 3e6 * len(texts) / 120
    data = json.loads(page.split('<script type="application/json" id="data">')[1].split("<")[0])
    assert len(gzip.decompress(base64.b64decode(data["answers"]))) > 6 * len(data["answers"])


def test_the_command_writes_a_page(hostile: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    line = ["explore", "--kg", str(hostile / "kg"), "--tokenizer", str(hostile / "tokenizer")]
    done = CliRunner().invoke(app, [*line, "--text", TEXT, "-o", str(page)])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(app, [*line, "-o", str(page)]).exit_code == 0, "ours is replaced"
    page.write_text("mine")
    refused = CliRunner().invoke(app, [*line, "-o", str(page)])
    assert (refused.exit_code, page.read_text()) == (1, "mine")


def test_texts_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(" One.\n\nTwo.\n")
    assert read_texts(str(tmp_path / "a.txt")) == ["One.", "Two."]
    assert read_texts("A text.") == ["A text."]
    (tmp_path / "long.txt").write_text("x" * 2001)
    for file_name, words in (
        (str(tmp_path / "long.txt"), "2001 characters"),
        ("no.txt", "not a file"),
    ):
        with pytest.raises((ConfigError, SourceError), match=words):
            read_texts(file_name)


def test_a_run_says_what_it_changed_of_its_method(with_run: Explorer) -> None:
    reader = with_run.readers[0]
    assert reader.predictor is not None
    question_ = Question("Paris.", reader=reader.key)
    assert any("differs from the method" in line for line in with_run.read(question_)["summary"])
    reader.predictor.view = {}  # without what its recipe set
    assert not any(
        "differs from the method" in line for line in with_run.read(question_)["summary"]
    )
    reader.predictor.view = {"visible_matrix": False}
    first = with_run.read(question_)["summary"][0]
    assert first == "This run differs from the method as published below: visible_matrix False."
