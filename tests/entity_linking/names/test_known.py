"""Surfaces that are known are found again by arrays exactly as they would be one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking.mentions import Candidate
from entity_linking.names import Gates, NameIndex, NameLinker, keys, known, linker, runs
from entity_linking.names.known import KnownSurfaces
from entity_linking.names.rules.case import CASES, Case
from entity_linking.names.runs import Runs
from entity_linking.surfaces import side_by_side
from kg_loaders import Text, TextKind, graph_from_records

SURFACES = st.lists(st.text("ab é\ud800", max_size=4), max_size=8, unique=True)
WORDS = ["New", "new", "York", "Café", "cafe\u0301", "東京", "of", "US", "us", "."]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), max_size=4)
LABELS = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join), min_size=1, max_size=6
)


@contextmanager
def patched(module: object, name: str, value: object) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, value)
        yield


@contextmanager
def always_looked_up(few: int) -> Iterator[None]:
    """However few runs there are; the table is made anew after `few` new surfaces."""
    arrays = patched(linker, "MOST_CHARACTERS", -1)
    with patched(known, "FEW", few), patched(linker, "WORTH", 0), patched(runs, "WORTH", 0), arrays:
        yield


@settings(deadline=None)
@given(SURFACES, SURFACES)
def test_a_stretch_has_the_number_of_the_surface_with_its_characters(
    here: list[str], surfaces_: list[str]
) -> None:
    surfaces_ = [*here[::2], *surfaces_, *here[1::2]]
    codes = side_by_side(surfaces_)
    lengths = np.array([len(surface) for surface in surfaces_], np.int64)
    begins = np.cumsum(lengths + 1) - lengths
    expected = [here.index(surface) if surface in here else -1 for surface in surfaces_]
    actual = KnownSurfaces(dict.fromkeys(here, ())).numbers(codes, begins, begins + lengths)
    assert actual.tolist() == expected
    with patched(keys, "_MIXER", np.uint64(0)):  # all surfaces share a hash
        table = KnownSurfaces(dict.fromkeys(here, ()))
        actual = table.numbers(codes, begins, begins + lengths)
    assert actual.tolist() == [number if number == 0 else -1 for number in expected]


def test_many_surfaces_are_told_apart() -> None:
    names = [f"{i}" for i in range(5_000)]
    codes = side_by_side(names)
    lengths = np.array([len(name) for name in names])
    begins = np.cumsum(lengths + 1) - lengths
    table = KnownSurfaces(dict.fromkeys(names[::2], ()))
    actual = table.numbers(codes, begins, begins + lengths)
    assert actual[::2].tolist() == list(range(2_500))
    assert (actual[1::2] == -1).all()


def test_what_means_nothing_is_refused_and_what_is_not_known_is_not() -> None:
    paris = (Candidate("Q90", 1.0, 1.0, "label"),)
    table = KnownSurfaces({"no": (), "Paris": paris})
    assert table.meanings == [(), paris, ()]
    assert table.is_refused.tolist() == [True, False, False]
    assert KnownSurfaces({}).is_refused.tolist() == [False]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4)), unique=True))
def test_runs_that_share_no_word_are_alone(lengths: list[tuple[int, int]]) -> None:
    spans = sorted(((at, at + n) for at, n in lengths), key=lambda span: (span[0], -span[1]))
    first, stops = (np.array([span[i] for span in spans], np.int64) for i in (0, 1))
    zeros = np.zeros(len(spans), np.int64)
    alone = Runs(first, stops, zeros, zeros, zeros, zeros).alone()
    others = [[other for other in spans if other != span] for span in spans]
    assert alone.tolist() == [
        not any(a < stop and at < b for a, b in rest)
        for (at, stop), rest in zip(spans, others, strict=True)
    ]


@pytest.mark.parametrize("few", [-1, 3])
@pytest.mark.parametrize("most", [2, 1_000])
@settings(deadline=None, max_examples=40)
@given(
    LABELS,
    st.lists(TEXTS, min_size=2, max_size=4),
    st.sampled_from(CASES),
    st.sampled_from([
        Gates(min_length=1, stop_words=frozenset()),
        Gates(),
        Gates(named_only=True, whole_names=True),
        Gates(name_parts=True, name_runs=True),
    ]),
)  # fmt: skip
def test_what_was_met_before_changes_no_mention(
    few: int, most: int, labels: list[str], calls: list[list[str]], case: Case, gates: Gates
) -> None:
    index = NameIndex.build(
        graph_from_records(Text(f"Q{i}", TextKind.LABEL, name) for i, name in enumerate(labels)),
        case=case,
    )
    with always_looked_up(few), patched(linker, "MOST_CACHED", most):
        met = NameLinker(index, gates)
        for texts in [*calls, *calls]:
            linked = met.link(texts)
            assert linked == NameLinker(index, gates).link(texts)
            spans = [[(k.mention.start, k.mention.end) for k in each.links] for each in linked]
            assert met.spans(texts) == spans
            assert met.spans(texts[:1]) == spans[:1]


def test_tags_are_asked_about_known_surfaces_too() -> None:
    graph = graph_from_records([Text("Q1", TextKind.LABEL, "Way")])
    with always_looked_up(-1):
        met = NameLinker(NameIndex.build(graph))
        for _ in range(2):
            assert met.spans(["Way to go"]) == [[(0, 3)]]
            assert met.link_tagged(["Way to go"], [[(0, 3, "INTJ")]])[0].links == ()
            assert len(met.link_tagged(["Way to go"], [[(0, 3, "NOUN")]])[0].links) == 1
    assert len(met._known) == 1
