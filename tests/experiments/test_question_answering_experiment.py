"""The committed study of question answering in small: every row and cell, nothing done twice."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tiny_chat import WordVectors, chat_tokenizer
from tiny_decoders import tiny_decoder

from experiments.kblam.study import KBLaMStudy
from experiments.kblam.world import VALUES, private_world
from experiments.question_answering import study as module
from experiments.question_answering.questions import (
    ANOTHER,
    EDITED,
    OFF,
    SHUFFLED,
    TRUE,
    Asked,
    is_right,
    value_of,
)
from experiments.question_answering.readers import as_linked, with_statements
from experiments.question_answering.study import Bench, QuestionStudy, run
from experiments.question_answering.tables import gain, share, to_json, to_markdown
from kept.decoders.kblam.config import KBLaMConfig
from kept.decoders.kblam.files import save_kblam
from kept.decoders.kblam.knowledge_base import facts_of_graph
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.wording import CHATML

CONFIG = Path(__file__).parents[2] / "experiments" / "question_answering" / "private.yaml"
PROMPTS = CONFIG.with_name("prompts.yaml")


def bench_of(folder: Path, kblam: Path | None = None) -> Bench:
    committed = QuestionStudy.read(CONFIG)
    study = committed.model_copy(
        update={
            "n_train": 3, "n_test": 3, "n_bearers": 2,
            "reading": committed.reading.model_copy(update={"n_steps": 1, "batch_size": 2}),
            "remembering": committed.remembering.model_copy(update={"n_epochs": 1}),
            "adapter": committed.adapter.model_copy(update={"n_epochs": 1}),
            "soft_prompt": committed.soft_prompt.model_copy(update={"n_steps": 2, "width": 8}),
        }
    )  # fmt: skip
    world = private_world(study.world_seed, n_train=study.n_train, n_test=study.n_test)
    facts = [*facts_of_graph(world.train), *facts_of_graph(world.test)]
    texts = [CHATML.dialogue(f.question(), f.answer) for f in facts]
    values = [f" {value}" for each in VALUES.values() for value in each]
    tokenizer = chat_tokenizer([*texts, *values, " " + " ".join(VALUES)])
    host = tiny_decoder("llama", vocab_size=len(tokenizer), max_position_embeddings=256)
    return Bench(study, host, tokenizer, folder, kblam)


@pytest.fixture
def sentence_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HostSentenceEncoder", lambda name: WordVectors())


def test_the_study_in_small(tmp_path: Path, sentence_vectors: None) -> None:
    first = bench_of(tmp_path / "run")
    width = int(first.host.config.hidden_size)
    config = KBLaMConfig(vector_width=WordVectors().width, value_width=width, scale=1.0)
    model = KBLaM(first.host, config)
    save_kblam(tmp_path / "kblam", model)
    bench = bench_of(tmp_path / "run", tmp_path / "kblam")
    cells = run(bench)
    assert set(cells) == {
        "host alone", "words", "branches", "nodes", "branches, read at the mention",
        "nodes, read at the mention", "LoRA on triples", "adapter on triples", "words, LoRA",
        "branches, LoRA", "nodes, LoRA", "soft prompt", "KBLaM",
    }  # fmt: skip
    assert {len(found["true"]) for name, found in cells.items() if "LoRA" in name} == {2}
    assert all(
        len(cell["exact"]) == 8 for row in cells.values() for c in row.values() for cell in c
    )
    weights = sorted(path.name for path in (tmp_path / "run" / "weights").iterdir())
    assert len(weights) == 16  # 4 kinds, and both told facts of two systems, of two seeds each
    told: list[str] = []
    again = run(
        dataclasses.replace(bench_of(tmp_path / "run", tmp_path / "kblam"), announce=told.append)
    )
    assert again == cells
    assert not any("step" in line or "epoch" in line for line in told)
    some = dataclasses.replace(bench, study=bench.study.model_copy(update={"rows": ["words"]}))
    assert run(some) == {"words": cells["words"]}
    page = to_markdown(cells, "the command")
    assert page.count("| KBLaM |") == 2
    assert share(cells["words"]["true"], "chosen").n_items == 8
    effect = gain(cells, "branches, LoRA", ANOTHER, "exact")
    assert effect.n_seeds == 2
    assert to_json(cells)["chosen"]["nodes"]["edited"]["seeds"] == 1


def test_kblam_reads_what_links_say(tmp_path: Path) -> None:
    bench = bench_of(tmp_path)
    asked = bench.test
    for condition in (TRUE, ANOTHER):
        graph, texts, _ = asked.under(condition)
        facts = facts_of_graph(graph)
        values = {(fact.name, fact.relation): fact.value for fact in facts}
        for text, question in zip(texts, asked.questions, strict=True):
            shown = as_linked(facts, graph, text)
            assert shown is not None
            linked = graph.label(graph.entities.find(text.links[0].entity))
            assert (linked == question.fact.name) == (condition == TRUE)
            for fact, own in zip(shown, facts, strict=True):
                assert (fact.name, fact.relation) == (own.name, own.relation)
                of = linked if fact.name == question.fact.name else fact.name
                assert fact.value == values[of, fact.relation]
    assert as_linked(facts, graph, asked.under(OFF)[1][0]) is None


def test_the_rows_of_prompts_are_those_of_the_study() -> None:
    study = QuestionStudy.read(PROMPTS)
    assert study.rows == ["host alone", "soft prompt", "KBLaM"]
    kblam = KBLaMStudy.read(CONFIG.parents[1] / "kblam" / "smollm2.yaml")
    assert (study.world_seed, study.n_train) == (kblam.world_seed, kblam.n_train)
    assert study.n_test <= kblam.n_test


def test_conditions_change_what_they_name() -> None:
    asked = Asked(private_world(0, n_train=1, n_test=12).test, 3, 0)
    true = asked.under(TRUE)
    assert [q.fact.value for q in asked.questions] == true[2]
    names = {q.fact.name for q in asked.questions}
    for linked, question in zip(true[1], asked.questions, strict=True):
        (link,) = linked.links
        assert asked.graph.label(asked.graph.entities.find(link.entity)) == question.fact.name
        assert linked.text.endswith(f"The {question.fact.relation} of {question.fact.name} is")
    assert not any(text.links for text in asked.under(OFF)[1])
    moved = asked.under(ANOTHER)
    assert moved[2] == true[2]
    assert all(
        a.links[0].entity != b.links[0].entity for a, b in zip(moved[1], true[1], strict=True)
    )
    assert asked.under(SHUFFLED)[0].content_hash != asked.graph.content_hash
    edited, _, right = asked.under(EDITED)
    assert len(names) == 3
    assert all(new != old for new, old in zip(right, true[2], strict=True))
    said = with_statements(edited, true[1][0]).text
    fact = asked.questions[0].fact
    assert f"The {fact.relation} of {fact.name} is {right[0]}. " in said
    assert f"{fact.value}." not in said.split(f"The {fact.relation} of {fact.name} is")[1][:20]


@pytest.mark.parametrize(
    ("written", "value"),
    [(" golf.", "golf"), (" a Baker, he", "baker"), (" Chile<|im_end|>\n", "chile"), ("", "")],
)
def test_the_value_is_what_stands_before_the_first_stop(written: str, value: str) -> None:
    assert value_of(written) == value
    assert is_right(written, value.capitalize()) or not value
    assert not is_right(" a game of golf", "golf")
