"""Duplicates: proposed by names, types and facts, decided in a file, merged."""

from __future__ import annotations

import json
import random
from pathlib import Path

import msgspec
import pytest

from kg_loaders import (
    DamageError,
    KnowledgeGraph,
    SourceError,
    Text,
    TextKind,
    Triple,
    graph_from_records,
)
from kg_loaders.errors import UnknownNodeError
from kg_loaders.growth.duplicates import Pair, merged, propose, read, write

RECORDS = [
    Triple("Q90", "P31", "city"), Triple("Q90", "P17", "France"), Triple("Q90", "P36", "x"),
    Triple("paris", "P31", "city"), Triple("paris", "P17", "France"),
    Triple("hilton", "P31", "human"), Triple("paris", "same", "Q90"), Triple("y", "near", "paris"),
    Text("Q90", TextKind.LABEL, "Paris", "en"), Text("paris", TextKind.LABEL, "PARIS", "en"),
    Text("hilton", TextKind.ALIAS, "Paris", "en", 3), Text("y", TextKind.LABEL, "Y", "en"),
    Text("P17", TextKind.LABEL, "Paris", "en", 0, True),
]  # fmt: skip


def test_pairs_come_with_their_reasons_the_likeliest_first() -> None:
    first, *others = propose(graph_from_records(RECORDS))
    assert (first.keep, first.drop, first.names) == ("Q90", "paris", ("paris",))
    assert first.same is None
    assert first.labels == ("Paris", "PARIS")
    assert first.same_types == 1.0
    assert first.same_facts == 0.3333
    assert first.score == 0.8333, "0.5 + 0.25 + 0.25 / 3, to four digits"
    assert [(pair.keep, pair.drop, pair.same_types) for pair in others] == [
        ("Q90", "hilton", 0.0), ("paris", "hilton", 0.0)
    ]  # fmt: skip
    assert {pair.score for pair in others} == {0.35}


def test_shares_have_four_digits() -> None:
    """Of three types, and so of three facts, one in common."""
    types = [Triple(e, "P31", kind) for e, kinds in (("a", "xy"), ("b", "yz")) for kind in kinds]
    names = [Text(entity, TextKind.LABEL, "N", "en") for entity in "ab"]
    (pair,) = propose(graph_from_records([*types, *names]))
    assert (pair.same_types, pair.same_facts, pair.score) == (0.3333, 0.3333, 0.6667)


def test_common_names_propose_nothing() -> None:
    texts = [Text(f"e{i}", TextKind.LABEL, "John", "en") for i in range(11)]
    assert propose(graph_from_records(texts)) == []
    assert len(propose(graph_from_records(texts[:10]))) == 45


def test_merged_is_what_renaming_in_the_records_gives() -> None:
    graph = graph_from_records(RECORDS)
    pairs = [
        Pair(keep="Q90", drop="paris", same=True), Pair(keep="Q90", drop="hilton", same=False),
        Pair(keep="y", drop="x"),
    ]  # fmt: skip
    result = merged(graph, pairs)
    names = {"paris": "Q90"}
    renamed: list[Triple | Text] = []
    for record in RECORDS:
        if isinstance(record, Triple):
            head, relation, tail = (names.get(part, part) for part in record)
            if head != tail:
                renamed.append(Triple(head, relation, tail))
        elif record.node in names:
            renamed.append(record._replace(node=names[record.node], kind=TextKind.ALIAS))
        else:
            renamed.append(record)
    renamed.append(Text("Q90", TextKind.ALIAS, "paris"))
    assert result.graph.content_hash == graph_from_records(renamed).content_hash
    assert (result.n_merged, result.n_loops) == (1, 1)
    assert "paris" not in result.graph.entities
    assert merged(graph, []).graph.content_hash == graph.content_hash


def test_pairs_that_hang_together_become_one() -> None:
    graph = graph_from_records(RECORDS)
    chain = [
        Pair(keep="hilton", drop="paris", same=True), Pair(keep="Q90", drop="hilton", same=True)
    ]  # fmt: skip
    result = merged(graph, chain).graph
    assert {"paris", "hilton"}.isdisjoint(result.entities)
    assert {alias for alias, _ in result.aliases(result.entities.id("Q90"))} == {
        "PARIS", "Paris", "hilton", "paris"
    }  # fmt: skip
    circle = [*chain, Pair(keep="paris", drop="Q90", same=True)]
    assert merged(graph, circle).n_merged == 2
    different = [*chain, Pair(keep="Q90", drop="paris", same=False)]
    with pytest.raises(DamageError, match=r"'Q90' and 'paris' are decided.*Q90 - hilton - paris"):
        merged(graph, different)
    unknown = [Pair(keep="Q90", drop="nowhere", same=False)]
    with pytest.raises(UnknownNodeError, match="'nowhere'"):
        merged(graph, unknown)


def test_same_is_an_equivalence_whatever_the_order_of_pairs() -> None:
    """A-B, A-C, B-C and every other way to join three or more."""
    triples = [Triple(name, "r", "z") for name in "abcdef"] + [Triple("a", "r", "b")]
    graph = graph_from_records(triples)
    for seed in range(50):
        draws = random.Random(seed)
        joined = [tuple(draws.sample("abcdef", 2)) for _ in range(draws.randint(1, 7))]
        groups = [set(name) for name in "abcdef"]
        for one, other in joined:
            both = [group for group in groups if group & {one, other}]
            groups = [group for group in groups if group not in both] + [set().union(*both)]
        result = merged(graph, [Pair(keep=k, drop=d, same=True) for k, d in joined])
        names = set(result.graph.entities) - {"z"}
        assert [len(names & group) for group in groups] == [1] * len(groups)
        assert result.n_merged == 6 - len(groups)


def test_self_loops_that_were_there_stay() -> None:
    loops = [Triple("a", "r", "a"), Triple("b", "s", "b"), Triple("a", "r", "b")]
    result = merged(graph_from_records(loops), [Pair(keep="a", drop="b", same=True)])
    assert result.n_loops == 1
    expected = [Triple("a", "r", "a"), Triple("a", "s", "a"), Text("a", TextKind.ALIAS, "b")]
    assert result.graph.content_hash == graph_from_records(expected).content_hash


def test_an_empty_file_of_decisions_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text("")
    with pytest.raises(SourceError, match="holds no pair"):
        read(tmp_path / "pairs.jsonl", graph_from_records(RECORDS))


def test_the_file_of_decisions(tmp_path: Path) -> None:
    graph, path = graph_from_records(RECORDS), tmp_path / "pairs.jsonl"
    pairs = propose(graph)
    assert write(pairs, path) == 3
    assert read(path, graph) == pairs
    assert json.loads(path.read_text().splitlines()[0])["same"] is None
    for line, fault in (
        ("{", "not a pair in JSON"),
        ('{"same": "yes", "keep": "Q90", "drop": "x"}', "not a pair in JSON"),
        ('{"keep": "Q90", "drop": "Q91"}', "'Q91' is not in the graph"),
        ('{"keep": "Q90", "drop": "Q90"}', "an entity and itself"),
    ):
        path.write_bytes(msgspec.json.encode(pairs[0]) + b"\n" + line.encode() + b"\n")
        with pytest.raises(DamageError, match=f"line 2 .*{fault}"):
            read(path, graph)


def test_no_names_no_pairs() -> None:
    assert propose(KnowledgeGraph.from_triples([("a", "r", "b")])) == []


def test_facts_of_an_entity_with_itself_stay_and_those_between_both_go() -> None:
    records = [
        Triple("a", "knows", "a"), Triple("b", "knows", "c"), Triple("a", "knows", "b"),
        Triple("b", "likes", "a"), Triple("d", "is", "d"),
    ]  # fmt: skip
    result = merged(graph_from_records(records), [Pair(keep="a", drop="b", same=True)])
    graph = result.graph
    facts = [
        (graph.entities.name(h), graph.relations.name(r), graph.entities.name(t))
        for h, r, t in graph.triples.tolist()
    ]
    assert facts == [("a", "knows", "a"), ("a", "knows", "c"), ("d", "is", "d")]
    assert (result.n_merged, result.n_loops) == (1, 2)


def test_one_shared_label_is_enough_and_a_label_of_one_alone_is_not() -> None:
    """Of two names in common one is a label of both; of the other pair no name is."""
    texts = [
        Text("a", TextKind.LABEL, "Rome"), Text("b", TextKind.LABEL, "rome"),
        Text("a", TextKind.ALIAS, "Eternal City"), Text("b", TextKind.ALIAS, "eternal city"),
        Text("c", TextKind.LABEL, "Lutetia"), Text("d", TextKind.ALIAS, "Lutetia"),
        Text("d", TextKind.LABEL, "Paris"),
    ]  # fmt: skip
    pairs = {(pair.keep, pair.drop): pair for pair in propose(graph_from_records(texts))}
    both = pairs["a", "b"]
    assert sorted(both.names) == ["eternal city", "rome"]
    assert both.score == pytest.approx(0.5 + 0.125)
    assert pairs["c", "d"].score == pytest.approx(0.35 + 0.125)


def test_types_are_compared_where_both_have_some() -> None:
    texts = [Text(name, TextKind.LABEL, "Rome") for name in ("a", "b", "c")]
    kinds = [Text("a", TextKind.TYPE, "city"), Text("b", TextKind.TYPE, "city")]
    pairs = {
        (pair.keep, pair.drop): pair.same_types
        for pair in propose(graph_from_records([*texts, *kinds]))
    }
    assert pairs == {("a", "b"): 1.0, ("a", "c"): None, ("b", "c"): None}
