"""Coverage: counted by hand, looked for to the end, and named in words."""

from __future__ import annotations

import numpy as np
import pytest

from entity_linking import LinkedText, gold_link
from entity_linking.mentions import Mention
from kept.errors import NoKnowledgeError
from kept.graphs.builder import Exclusion
from kept.graphs.coverage import (
    LOOKED_AT,
    Coverage,
    caution,
    cell,
    coverage_of,
    look,
    require_read,
    summary,
)
from kept.graphs.naming import is_named, n_with_names
from kept.graphs.views import CoLAKEView, WordsView
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

GRAPH = graph_from_records(
    [
        Triple("a", "r", "b"), Triple("a", "s", "b"), Triple("a", "r", "c"),
        Text("alone", TextKind.LABEL, "alone"),
    ]
)  # fmt: skip
TARGETS = [Mention(0, 1), Mention(2, 3)]


def text(*entities: str | None) -> LinkedText:
    links = tuple(gold_link(2 * i, 2 * i + 1, name) for i, name in enumerate(entities))
    return LinkedText("x y z", links)


TEXTS = [text(), text(None), text("nobody"), text("alone"), text("a", "alone"), text("b", "a")]


def ids(graph: KnowledgeGraph, texts: list[LinkedText]) -> np.ndarray:
    names = [link.entity for each in texts for link in each.links]
    rows = [None if name is None else graph.entities.find(name) for name in names]
    return np.array([-1 if i is None else i for i in rows], np.int64)


def test_links_facts_and_both_ends_are_counted() -> None:
    coverage = coverage_of(TEXTS, ids(GRAPH, TEXTS), GRAPH, targets=[TARGETS] * len(TEXTS))
    assert coverage == Coverage(6, 3, 2, 1, 0, None)
    assert coverage.shares == {"link": 0.5, "fact": 2 / 6, "both_facts": 1 / 6, "read": None}
    read_coverage = coverage_of(TEXTS, ids(GRAPH, TEXTS), GRAPH, is_read=lambda i: i == 5)
    assert (read_coverage.with_both_facts, read_coverage.looked_at, read_coverage.read) == (
        None,
        6,
        1,
    )
    empty = coverage_of([], np.zeros(0, np.int64), GRAPH, is_read=lambda i: True)
    assert set(empty.shares.values()) == {None}


def test_a_fact_between_the_asked_pair_is_none() -> None:
    """a and b are joined twice, and a with c: b has nothing else to show."""
    pair = [[GRAPH.entities.id("a"), GRAPH.entities.id("b")]]
    hidden = Exclusion(pairs=np.array(pair, np.int32))
    coverage = coverage_of(
        TEXTS[-1:], ids(GRAPH, TEXTS[-1:]), GRAPH, targets=[TARGETS], exclude=[hidden]
    )
    assert (coverage.with_fact, coverage.with_both_facts) == (1, 0)  # a alone


@pytest.mark.parametrize("n", [1, 7, LOOKED_AT, 5 * LOOKED_AT + 1])
def test_all_are_looked_at_before_none_is_said_to_be_read(n: int) -> None:
    everyone, indices = np.ones(n, np.bool_), set[int]()

    def is_read(i: int, hit: int = -1) -> bool:
        indices.add(i)
        return i == hit

    assert look(everyone, is_read) == (n, 0)
    assert indices == set(range(n))
    first = np.unique(np.linspace(0, n - 1, min(n, LOOKED_AT)).round())
    hidden = sorted(set(range(n)) - set(first.astype(int).tolist()))
    if hidden:
        assert look(everyone, lambda i: i == hidden[-1]) == (n, 1)
        few = np.zeros(n, np.bool_)
        assert look(few, is_read) == (LOOKED_AT, 0)  # nothing to find in the others
    assert look(everyone, lambda i: True) == (min(n, LOOKED_AT),) * 2


@pytest.mark.parametrize(("read", "is_low"), [(0, True), (99, True), (100, False), (None, False)])
def test_a_low_share_is_told_and_an_old_run_has_none(read: int | None, is_low: bool) -> None:
    values = Coverage(1000, 500, 400, None, 1000, read).as_json()
    line = caution(values, "train")
    assert (line is not None) is is_low
    if line is not None:
        assert line.startswith(
            f"train: the model gets facts or entities of the graph in {read / 1000:.1%} of "
            f"the samples"
        )  # type: ignore[operator]
    share = "–" if read is None else f"{read / 10:.1f}"
    assert cell(values) == f"50.0 / 40.0 / – / {share}"
    assert caution(None, "train") is None
    assert cell(None) == summary(None) == "not recorded"


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("New_York", True), ("http://dbpedia.org/resource/Paris", True), ("北京", True),
        ("Q60", False), ("/m/02_286", False), ("00001740", False), ("_:", False),
        ("http://www.wikidata.org/entity/Q60", False), ("https://x.org/v2/Paris/", True),
    ],
)  # fmt: skip
def test_an_identifier_in_words_is_a_name(name: str, named: bool) -> None:
    graph = graph_from_records([Triple(name, "r", name)])
    assert is_named(graph, 0) is named
    assert n_with_names(graph) == 0  # no dictionary finds it
    labelled = graph_from_records([Triple(name, "r", name), Text(name, TextKind.LABEL, "x")])
    assert is_named(labelled, 0)
    assert n_with_names(labelled) == 1


@pytest.mark.parametrize(
    ("texts", "is_linked", "why"),
    [
        (TEXTS[:1], False, r"no text has a link; .*--link.*`kept link`"),
        (TEXTS[:1], True, r"none of the names of 1 entities is in a text"),
        (TEXTS[2:3], False, r"none of the 1 link, such as 'nobody', is to an entity of the graph"),
        (TEXTS[3:4], False, r"1 text had a link, and no linked entity has a fact"),
        (TEXTS[5:], False, r"links and facts are there.*max_neighbours"),
    ],
)
def test_the_reason_and_the_remedy_are_told(
    texts: list[LinkedText], is_linked: bool, why: str
) -> None:
    coverage = coverage_of(texts, ids(GRAPH, texts), GRAPH, is_read=lambda _: False)
    with pytest.raises(NoKnowledgeError, match=rf"is shown to the model in dev \(1 text\): {why}"):
        require_read(coverage, texts, GRAPH, CoLAKEView(), of="dev", is_linked=is_linked)
    without_names = graph_from_records([Triple("a", "r", "b")])
    if is_linked:
        with pytest.raises(NoKnowledgeError, match=r"has a name, .*kg build … --labels"):
            require_read(coverage, texts, without_names, CoLAKEView(), of="dev", is_linked=True)


def test_entities_without_facts_are_enough_where_their_vectors_come_from_elsewhere() -> None:
    texts = TEXTS[3:4]
    coverage = coverage_of(texts, ids(GRAPH, texts), GRAPH, is_read=lambda _: True)
    require_read(coverage, texts, GRAPH, CoLAKEView(), of="dev", needs_facts=False)
    with pytest.raises(NoKnowledgeError, match="no linked entity has a fact"):
        require_read(coverage, texts, GRAPH, CoLAKEView(), of="dev")
    words = coverage_of(texts, ids(GRAPH, texts), GRAPH)
    require_read(words, texts, GRAPH, WordsView(), of="dev")  # it would read none anyway
