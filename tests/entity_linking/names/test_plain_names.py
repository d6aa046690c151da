"""Plain names, many at once: the keys and words that the rules find one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from entity_linking.names import segment
from entity_linking.names.plain import plain_names
from entity_linking.names.segment import NameRows, Source, build_segment
from kg_loaders.vocabulary import Vocabulary, strings

WORDS = st.sampled_from(
    [
        "Paris", "new", "York", "of", "the", "The", "a", "A", "B", "two", "Second", "II", "Inc",
        "ltd", "Acme", "2nd", "é", "Jean-Luc", "(band)", "AT&T", "x", "U.S.", "de", "De", "42",
        "'", "Ba'ath", "Jr.,", "\x00",
    ]
)  # fmt: skip
NAMES = st.lists(WORDS, min_size=1, max_size=10).map(" ".join)
ANY = st.text(min_size=1, max_size=8).filter(lambda text: bool(text.strip("\xad \u200b")))


def built(names: list[str], sources: list[Source], *, variants: bool) -> list[object]:
    rows = NameRows(
        strings(names),
        np.arange(len(names), dtype=np.int32),
        np.array(sources, np.uint8),
        np.ones(len(names), np.float32),
    )
    result, longest = build_segment(
        rows,
        entities=Vocabulary.of(f"e{i:03}" for i in range(len(names))),
        popularity=np.zeros(len(names), np.float32),
        raised=np.zeros(0, np.int32),
        raised_popularity=np.zeros(0, np.float32),
        variants=variants,
    )
    keys = {key: [*zip(*(col[result.entries(key)].tolist() for col in
                         (result.key_names, result.key_kinds)), strict=True)]
            for key in result.keys}  # fmt: skip
    words = {word: result.postings(word).tolist() for word in result.words}
    return [longest, keys, words, result.name_words.tolist()]


@settings(deadline=None, max_examples=120)
@given(
    st.lists(st.one_of(NAMES, NAMES, ANY), min_size=1, max_size=8),
    st.data(),
    st.booleans(),
)
@example(["New York", "A B", "Art of War", "World Health Organization"], None, True)
def test_together_they_say_what_each_says(
    names: list[str], data: st.DataObject | None, variants: bool
) -> None:
    sources = [
        Source.LABEL if data is None else data.draw(st.sampled_from(list(Source))) for _ in names
    ]
    with pytest.MonkeyPatch.context() as patch:
        together = built(names, sources, variants=variants)
        patch.setattr(segment, "plain_names", lambda values: np.zeros(len(values), np.bool_))
        assert together == built(names, sources, variants=variants)


def test_most_names_are_plain() -> None:
    """So that the property above is about something."""
    names = ["Paris", "New York", "World Health Organization", "area 51", "X"]
    assert plain_names(pa.array(names, pa.large_string())).all()
    odd = ["The Who", "Acme Inc", "J R Tolkien", "World War Two", "Art of War", "é", "A-B", ""]
    assert not plain_names(pa.array(odd, pa.large_string())).any()
