"""experiments/popular_questions: the page is that of the stored answers, draws, controls, BM25."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from entity_linking import DictionaryLinker
from experiments.popular_questions.questions import Pool, Settings
from experiments.popular_questions.retrieval import BM25, K1, WORD, B, ByVectors
from experiments.popular_questions.tables import ARMS, Results, page
from experiments.popular_questions.trial import PopularQuestions
from kept.lab.questions.items import values_of
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from tests.kept.tiny_chat import WordVectors, chat_tokenizer
from tests.kept.tiny_decoders import tiny_decoder

FOLDER = Path(__file__).parents[2] / "experiments/popular_questions"
FILE = FOLDER / "questions.yaml"
SETTINGS = Settings.read(FILE)


def test_the_page_is_that_of_the_stored_answers() -> None:
    results = Results.read(FOLDER / "answers")
    whole = results.having(*ARMS)
    assert whole.of_seeds
    assert (FOLDER / "results.md").read_text(encoding="utf-8") == page(results)
    for (row, condition, seed), outcome in results.outcomes.items():
        of_seed = next(each for each in results.of_seeds if each.seed == seed)
        assert len(outcome.written) == len(of_seed.questions), (row, condition)
        assert len(outcome.exact) == len(outcome.f1) == len(of_seed.questions)


def test_no_subject_is_asked_about_by_two_seeds() -> None:
    of_seeds = Results.read(FOLDER / "answers").of_seeds
    entities = [entity for each in of_seeds for entity in each.entities]
    assert len({*entities}) == len(entities)
    assert all(
        each.thirds.count(third) == SETTINGS.per_third for each in of_seeds for third in (0, 1, 2)
    )


# ---- in small ------------------------------------------------------------------------------------
N = 18
CITIES, JOBS = ("Rome", "Oslo", "Bern", "Kyiv"), ("baker", "pilot", "judge")


def world() -> KnowledgeGraph:
    """Eighteen people, each with a birthplace, and a job but for every third."""
    records: list[Triple | Text] = []
    for i in range(N):
        name = f"Person{i}"
        records += [Triple(name, "P19", CITIES[i % 4]), Triple(name, "P20", CITIES[(i + 1) % 4])]
        if i % 3:
            records.append(Triple(name, "P106", JOBS[i % 3]))
    names = {"P19": "place of birth", "P20": "place of death", "P106": "occupation"}
    records += [Text(r, TextKind.LABEL, label, is_relation=True) for r, label in names.items()]
    return graph_from_records(records)


def pool(graph: KnowledgeGraph) -> Pool:
    small = SETTINGS.model_copy(update={"per_third": 2, "dev_per_third": 1, "n_new": 2})
    names = [graph.entities.name(i) for i in range(graph.n_entities)]
    return Pool(graph, {name: 2 + i for i, name in enumerate(names)}, small)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> PopularQuestions:
    graph = world()
    questions_pool = pool(graph)
    words = [graph.label(i) for i in range(graph.n_entities)]
    texts = [f"The place of birth death occupation of {word} is . ?" for word in words]
    questions = questions_pool.draw(0)
    texts += [f"{q.item.question} {q.item.begin}" for q in questions]
    tokenizer = chat_tokenizer(["user assistant Question : Answer", *texts])
    host = tiny_decoder("llama", vocab_size=len(tokenizer), max_position_embeddings=256)
    study = PopularQuestions(
        questions_pool.settings, graph, DictionaryLinker(graph), WordVectors(), questions, 0,
        tmp_path_factory.mktemp("popular"), tmp_path_factory.mktemp("answers"),
    )  # fmt: skip
    study.__dict__.update(host=host.to(torch.bfloat16), tokenizer=tokenizer)
    return study


def test_seeds_and_the_dev_part_share_no_head() -> None:
    questions_pool = pool(world())
    parts = [{q.item.entity for q in questions_pool.draw(seed)} for seed in (None, 0, 1)]
    assert [len(part) for part in parts] == [3, 6, 6]
    assert len(set.union(*parts)) == 15
    wordings = SETTINGS.relations
    for seed, part in ((None, "dev"), (0, "test")):
        for q in questions_pool.draw(seed):
            texts = getattr(wordings[q.item.relation], part)
            assert q.item.question in [text.format(name=q.item.name) for text in texts]
    with pytest.raises(ValueError, match="no 2 heads left for seed 2"):
        questions_pool.draw(2)


def test_conditions_change_what_they_say(study: PopularQuestions) -> None:
    facts = [study.set.fact_of(q.item) for q in study.questions]
    edited, absent = study.graph("edited"), study.graph("absent")
    for i, (fact, question) in enumerate(zip(facts, study.questions, strict=True)):
        right = {*question.item.answers}
        assert not right & {*values_of(edited, *fact)}
        assert study.right(edited, "edited")[i] == values_of(edited, *fact)
        assert values_of(absent, *fact) == ()
        other = values_of(study.base, study.others[i], fact[1])
        assert other
        assert not right & {*other}
        assert right | {*other} | {*values_of(edited, *fact)} <= {*study.candidates[i]}


def test_rows_show_what_they_say(study: PopularQuestions) -> None:
    graph = study.base
    for row in ("kept", "gold-link", "gold-fact", "bm25", "minilm"):
        contexts = study.retrieved(row, "true", graph)
        assert [len(rows or ()) <= SETTINGS.max_facts for rows in contexts.rows] == [True] * 6
        if row == "gold-fact":
            for question, rows in zip(study.questions, contexts.rows, strict=True):
                fact = study.set.fact_of(question.item)
                assert rows
                assert {tuple(graph.triples[r, :2].tolist()) for r in rows} == {fact}
    other = study.retrieved("kept", "random-entity", graph)
    for i, rows in enumerate(other.rows):
        assert rows
        assert all(study.others[i] in graph.triples[r, ::2] for r in rows)


def test_outcomes_are_stored_once_under_their_address(
    study: PopularQuestions, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert study.settings.relations == Settings.read(FILE).relations
    study.stored_questions()
    study.run_missing()
    results = Results.read(study.answers)
    assert {*results.outcomes} == {(*arm, 0) for arm in ARMS}
    assert results.of(("gold-fact", "true"), "shows_right").all()
    assert "## The fact missing" in page(results)
    monkeypatch.setattr(PopularQuestions, "outcome", lambda *_: pytest.fail("answered again"))
    study.run_missing()


# ---- retrieval -----------------------------------------------------------------------------------
def naive_bm25(question: str, texts: Sequence[str]) -> list[float]:
    """Term by term, in loops."""
    words = [WORD.findall(text.casefold()) for text in texts]
    mean = sum(map(len, words)) / len(words)
    scores = []
    for document in words:
        score = 0.0
        for term in WORD.findall(question.casefold()):
            n, tf = sum(term in each for each in words), document.count(term)
            idf = math.log(1 + (len(texts) - n + 0.5) / (n + 0.5))
            score += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * len(document) / mean))
        scores.append(score)
    return scores


def test_bm25_is_that_of_loops() -> None:
    draws = np.random.default_rng(0)
    vocabulary = ["a", "b", "c", "d", "e", "f"]
    texts = [" ".join(draws.choice(vocabulary, draws.integers(1, 9))) for _ in range(40)]
    index = BM25(texts)
    for question in ("a b", "f f c?", "nothing e"):
        expected = np.argsort(-np.array(naive_bm25(question, texts)).round(5), kind="stable")
        scores = np.array(naive_bm25(question, texts))
        assert scores[index.best(question, 5)] == pytest.approx(scores[expected[:5]], abs=1e-4)
    assert index.best("unknown", 2).tolist() == [0, 1]


def test_vectors_are_made_once(tmp_path: Path) -> None:
    texts = ["a b", "c d", "a d"]
    path = tmp_path / "vectors.npy"
    first = ByVectors(texts, WordVectors(), path).best("c d", 3).tolist()
    assert first[0] == 1
    written = path.read_bytes()
    assert ByVectors(texts, WordVectors(), path).best("c d", 3).tolist() == first
    assert path.read_bytes() == written
