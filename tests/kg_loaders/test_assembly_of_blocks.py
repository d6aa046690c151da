"""Names that come in blocks, as numbers and one by one, in any order: each stands once, sorted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg_loaders import KnowledgeGraph
from kg_loaders.assembly import Columns
from kg_loaders.disk import keys, string_order
from kg_loaders.reading import names
from kg_loaders.reading.blocks import TripleBlock
from kg_loaders.records import Triple

NAME = st.builds("{}{}".format, st.sampled_from(["Q", "P", "x", ""]), st.integers(1, 4))
ROW = st.tuples(NAME, st.just("r"), NAME)
KIND = st.sampled_from(["one by one", "names", "numbers"])


def block_of(rows: list[tuple[str, str, str]], kind: str) -> list[Triple] | list[TripleBlock]:
    """Triples one by one, as a block of names, or of numbers behind Q where all are."""
    if kind == "one by one":
        return [Triple(*row) for row in rows]
    relations, relation_ids = pa.array(["r"]), np.zeros(len(rows), np.int32)
    ends = [name for head, _, tail in rows for name in (head, tail)]
    if kind == "numbers" and all(name.startswith("Q") for name in ends):
        ids = np.array([int(name[1:]) for name in ends], np.int32).reshape(-1, 2)
        return [TripleBlock(ids, relation_ids, "Q", relations)]
    every = sorted(set(ends))
    ids = np.array([every.index(name) for name in ends], np.int32).reshape(-1, 2)
    return [TripleBlock(ids, relation_ids, pa.array(every), relations)]


@pytest.fixture(autouse=True)
def _few_for_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(string_order, "_LEAST", 2)
    monkeypatch.setattr(keys, "_LEAST", 2)
    monkeypatch.setattr(names, "_FEW", 3)


@pytest.mark.hypothesis
@settings(deadline=None)
@given(
    st.lists(st.tuples(st.lists(ROW, min_size=1, max_size=5), KIND), min_size=1, max_size=5),
    st.integers(1, 3),
)
def test_every_name_stands_once(
    parts: list[tuple[list[tuple[str, str, str]], str]], n_threads: int
) -> None:
    columns = Columns(n_threads)
    for rows, kind in parts:
        columns.add(block_of(rows, kind))
    graph = KnowledgeGraph(**columns.fields(languages=()))
    every = {row for rows, _ in parts for row in rows}
    entities = [graph.entities.name(i) for i in range(graph.n_entities)]
    assert entities == sorted({name for head, _, tail in every for name in (head, tail)})
    actual = {
        (entities[h], graph.relations.name(r), entities[t]) for h, r, t in graph.triples.tolist()
    }
    assert actual == every
