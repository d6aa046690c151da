"""Questions to a decoder with facts in view: what is shown, written, left out, and refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from entity_linking import DictionaryLinker
from kept import decoders
from kept.decoders.answering.relations import RelationMatcher
from kept.decoders.asking import (
    Asker,
    AskOptions,
    FactsAs,
    by_likeness,
    excerpt,
    in_order,
    prompt,
    sentence,
    sentences,
)
from kept.errors import ConfigError
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from tests.kept.tiny_chat import WordVectors, chat_tokenizer
from tests.kept.tiny_decoders import tiny_decoder

FACTS = [("padre", "job", "baker"), ("padre", "home", "rome"), ("maria", "job", "pilot"),
         ("padre", "child", "maria")]  # fmt: skip
CHAT = (
    "{% for m in messages %}<|im_start|>user\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
)
every_way = pytest.mark.parametrize("facts_as", ["words", "branches", "nodes"])


def graph_of(facts: Sequence[tuple[str, str, str]] = FACTS) -> KnowledgeGraph:
    names = dict.fromkeys([*(n for h, _, t in FACTS for n in (h, t)), "atlantis"])
    labels = [Text(name, TextKind.LABEL, name.capitalize()) for name in names]
    relations = [
        Text(r, TextKind.LABEL, r, is_relation=True) for r in dict.fromkeys(r for _, r, _ in FACTS)
    ]
    return graph_from_records([*(Triple(*fact) for fact in facts), *labels, *relations])


def asker_of(family: str = "llama", graph: KnowledgeGraph | None = None, **more: Any) -> Asker:
    graph = graph or graph_of()
    sentences_ = [f" {graph.label(i)}. The job of home child is" for i in range(graph.n_entities)]
    texts = ["what is the job of Padre user assistant Question : Answer", *sentences_]
    tokenizer = chat_tokenizer([*texts, " Padre baker rome maria Baker Rome Maria"])
    tokenizer.chat_template = CHAT
    host = tiny_decoder(family, vocab_size=len(tokenizer), max_position_embeddings=128, **more)
    with torch.no_grad():  # the mean of two words is never likelier than both: words are written
        words = host.get_output_embeddings().weight
        words[tokenizer.all_special_ids] = words[-2:].mean(0)
    return Asker(host, tokenizer, graph, DictionaryLinker(graph), in_order)


@every_way
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_each_fact_is_left_out_as_if_the_graph_had_it_not(family: str, facts_as: FactsAs) -> None:
    asker, options = asker_of(family), AskOptions(facts_as=facts_as, n_new=3, directions="head")
    reply = asker.ask("what is the job of Padre", options)
    assert reply.answer
    assert reply.probability is not None
    assert 0 < reply.probability < 1
    assert {one.fact for one in reply.facts} == {
        "Padre — job → Baker", "Padre — home → Rome", "Padre — child → Maria"
    }  # fmt: skip
    assert [one.change for one in reply.facts] == sorted(
        (one.change for one in reply.facts), reverse=True
    )
    for one in reply.facts:
        head, relation, tail = asker.graph.triples[one.row].tolist()
        names = (
            asker.graph.entities.name(head), asker.graph.relations.name(relation),
            asker.graph.entities.name(tail),
        )  # fmt: skip
        without = asker_of(family, graph_of([fact for fact in FACTS if fact != names]))
        assert without.ask("what is the job of Padre", options).answer == (one.without or None)


def test_changes_are_differences_of_log_probabilities() -> None:
    """Against the host alone, on the same words as plain text."""
    asker = asker_of()
    options = AskOptions(n_new=4, directions="head", max_facts=2)
    reply = asker.ask("what is the job of Padre", options)
    rows = [one.row for one in reply.facts]
    rows.sort(key=lambda row: row)

    def total(kept: Sequence[int]) -> tuple[float, int]:
        context = sentences(asker.graph, kept)
        text = prompt(asker.tokenizer, "what is the job of Padre", (), context, "").text
        ids = asker.tokenizer(text)["input_ids"]
        more = words
        with torch.no_grad():
            scores = asker.host(torch.tensor([ids + more])).logits[0].log_softmax(-1)
        each = [scores[len(ids) - 1 + i, word] for i, word in enumerate(more)]
        return float(sum(each)), len(more)

    assert reply.answer is not None
    words = _greedy(asker, rows, 4)
    assert asker.tokenizer.decode(words, skip_special_tokens=True).strip() == reply.answer
    whole, n = total(rows)
    assert reply.probability == pytest.approx(2.718281828 ** (whole / n), rel=1e-3)
    for one in reply.facts:
        rest, _ = total([row for row in rows if row != one.row])
        assert one.change == pytest.approx(whole - rest, abs=1e-3)
    assert reply.change == pytest.approx(whole - total([])[0], abs=1e-3)


def _greedy(asker: Asker, rows: Sequence[int], n: int) -> list[int]:
    context = sentences(asker.graph, rows)
    ids = asker.tokenizer(prompt(asker.tokenizer, "what is the job of Padre", (), context, "").text)
    out = asker.host.generate(
        torch.tensor([ids["input_ids"]]), max_new_tokens=n, do_sample=False, use_cache=False,
        pad_token_id=2, eos_token_id=asker.tokenizer.eos_token_id,
    )  # fmt: skip
    new: list[int] = out[0, len(ids["input_ids"]) :].tolist()
    return [word for word in new if word != asker.tokenizer.eos_token_id]


@every_way
def test_nothing_is_written_where_nothing_is_found(
    facts_as: FactsAs, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker, options = asker_of(), AskOptions(facts_as=facts_as)
    monkeypatch.setattr(
        "kept.decoders.asking.write", lambda *_, **__: pytest.fail("the decoder was asked")
    )
    nobody = asker.ask("what is the job of nobody", options)
    assert nobody.answer is None
    assert "no entity" in nobody.refusal
    lonely = asker.ask("what is the job of Atlantis", options)
    assert (lonely.answer, lonely.entities) == (None, ("Atlantis",))
    assert "no fact of Atlantis" in lonely.refusal


def test_facts_are_ordered_counted_and_taken_in_both_directions() -> None:
    asker = asker_of()
    both = asker.ask("what is the job of Maria", AskOptions(n_new=1))
    assert {one.fact for one in both.facts} == {"Maria — job → Pilot", "Padre — child → Maria"}
    assert both.left_out == 0
    alike = Asker(
        asker.host, asker.tokenizer, asker.graph, asker.linker, by_likeness(WordVectors())
    )
    reply = alike.ask("Maria job job", AskOptions(n_new=1, max_facts=1))
    assert [one.fact for one in reply.facts] == ["Maria — job → Pilot"]
    assert reply.left_out == 1
    assert reply.as_json()["facts"][0]["fact"] == "Maria — job → Pilot"


def test_many_values_of_one_relation_hide_no_other() -> None:
    """Four jobs are alike, and "where" is like none of them; of each relation one is shown."""
    jobs = [("padre", "job", name) for name in ("baker", "rome", "maria", "atlantis")]
    graph = graph_from_records([
        *(Triple(*fact) for fact in [*jobs, ("padre", "home", "pilot")]),
        *(Text(n, TextKind.LABEL, n.capitalize()) for n in ("padre", "pilot", "baker")),
    ])  # fmt: skip
    asker, options = asker_of(graph=graph), AskOptions(n_new=1, max_facts=3, directions="head")
    question, entity = "where is Padre job job", graph.entities.id("padre")

    def relations(asker_: Asker) -> list[str]:
        rows, left_out = asker_.facts(question, {entity: "Padre"}, options)
        assert left_out == 2
        return [graph.relation_label(graph.triples[row, 1]) for row in rows]

    alike = dataclasses.replace(asker, order=by_likeness(WordVectors()))
    assert relations(alike) == ["job", "job", "job"]
    matcher = RelationMatcher(graph, WordVectors())
    assert sorted(relations(dataclasses.replace(alike, matcher=matcher))[:2]) == ["home", "job"]


def test_facts_are_sentences_and_the_best_is_nearest_to_the_question() -> None:
    graph = graph_from_records([
        Triple("Eva", "educated at", "Sorbonne"), Triple("Eva", "place of birth", "Rouen"),
    ])  # fmt: skip
    rows = [0, 1] if graph.relations.name(graph.triples[0, 1]) == "educated at" else [1, 0]
    assert sentences(graph, rows) == (
        "The place of birth of Eva is Rouen. Eva educated at Sorbonne. "
    )
    assert sentences(graph, []) == ""


def test_a_prompt_is_the_tokenizers_own_and_links_move_with_it() -> None:
    asker = asker_of()
    (linked,) = asker.linker.link(["is Padre home"])
    text = prompt(asker.tokenizer, "is Padre home", linked.links, "It rains. ", " It is")
    assert text.text == (
        "<|im_start|>user\nIt rains. is Padre home<|im_end|>\n<|im_start|>assistant\n It is"
    )
    (link,) = text.links
    assert text.text[link.mention.start : link.mention.end] == "Padre"
    asker.tokenizer.chat_template = None
    without_facts = prompt(asker.tokenizer, "is Padre home", linked.links, "", "")
    assert without_facts.text == "Question: is Padre home\nAnswer:"
    (link,) = without_facts.links
    assert without_facts.text[link.mention.start : link.mention.end] == "Padre"
    asker.tokenizer.chat_template = "{{ messages[0]['content'] | upper }}"
    with pytest.raises(ConfigError, match="changes the question"):
        prompt(asker.tokenizer, "is Padre home", (), "", "")


def test_an_excerpt_has_its_facts_and_their_labels_alone() -> None:
    graph = graph_of()
    small = excerpt(graph, [1, 2])
    assert small.n_triples == 2
    sentences_ = [sentence(small, row) for row in range(2)]
    assert sorted(sentences_) == sorted(sentence(graph, row) for row in (1, 2))


@pytest.mark.parametrize("family", decoders.FAMILIES)
def test_every_family_answers(family: str) -> None:
    reply = asker_of(family).ask("what is the job of Padre", AskOptions(n_new=2))
    assert reply.facts
    assert reply.n_nodes > 10


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"facts as 'table'.*max_facts 0: 1 or more"):
        AskOptions(facts_as="table", max_facts=0)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="word pieces; the decoder reads 28 and writes 100"):
        asker_of().ask("what is the job of Padre " * 6, AskOptions(n_new=100))


@pytest.mark.parametrize("n_new", [126, 128, 200, 100_000])
def test_more_new_words_than_positions_leave_no_negative_room(n_new: int) -> None:
    with pytest.raises(ConfigError) as refused:
        asker_of().ask("what is the job of Padre", AskOptions(n_new=n_new))
    assert f"{n_new} new word pieces leave no room for a question" in str(refused.value)
    assert "128 positions; give at most 125 (--new, n_new)" in str(refused.value)
    assert "reads -" not in str(refused.value)
    with pytest.raises(ConfigError, match="the decoder reads 3 and writes 125"):
        asker_of().ask("what is the job of Padre", AskOptions(n_new=125))
