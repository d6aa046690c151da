"""Senses of lemmas and surfaces as the released KnowBERT counts them, against plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.original_knowbert_candidates import (
    GoldSense,
    Sense,
    SenseTable,
    gold_sense_candidates,
    sense_candidates,
)

LEMMAS = {"went": "go", "better": "good", "saws": "saw"}


def lemmatise(word: str) -> str:
    return LEMMAS.get(word, word)


def sense(lemma: str, number: int, n_tags: int, part: str = "v") -> Sense:
    return Sense(f"{lemma}%2:00:{number:02}::", part, f"{lemma}.{part}.{number:02}", n_tags)


def test_priors_are_over_lemma_and_surface_together() -> None:
    table = SenseTable([sense("go", 1, 320), sense("went", 1, 1, "a")])
    (actual,) = sense_candidates(["went"], table, lemmatise, surfaces=True)
    assert actual.entities == ("go.v.01", "went.a.01")
    assert actual.priors == pytest.approx((321 / 323, 2 / 323))
    (alone,) = sense_candidates(["went"], table, lemmatise)
    assert (alone.entities, alone.priors) == (("go.v.01",), (1.0,))


def expected(word: str, senses: Sequence[Sense], most: int) -> tuple[list[str], list[Fraction]]:
    """A word with `surfaces`, by loops: pool, cut to the most frequent, divide."""
    pool: list[Sense] = []
    for key in dict.fromkeys([lemmatise(word), word]):
        of_key = [s for s in senses if s.id.split("%")[0] == key]
        pool += sorted(of_key, key=lambda s: -s.n_tags)[:most] if len(of_key) > most else of_key
    if len(pool) > most:
        pool = sorted(pool, key=lambda s: -s.n_tags)[:most]
    total = sum(s.n_tags + 1 for s in pool)
    return [s.synset for s in pool], [Fraction(s.n_tags + 1, total) for s in pool]


@given(
    word=st.sampled_from([*LEMMAS, "go"]),
    counts=st.lists(st.tuples(st.sampled_from(["go", "went", "saw", "saws"]), st.integers(0, 9))),
    most=st.integers(1, 5),
)
def test_a_span_has_the_most_frequent_senses_of_all_its_keys(
    word: str, counts: list[tuple[str, int]], most: int
) -> None:
    senses = [sense(lemma, i, n) for i, (lemma, n) in enumerate(counts)]
    actual = sense_candidates(
        [word], SenseTable(senses, max_candidates=most), lemmatise, surfaces=True
    )
    entities, priors = expected(word, senses, most)
    assert [list(c.entities) for c in actual] == ([entities] if entities else [])
    assert [list(c.priors) for c in actual] == (
        [pytest.approx([float(p) for p in priors])] if entities else []
    )


def test_what_other_parts_of_speech_push_out_stays_out() -> None:
    senses = [sense("break", 1, 9), sense("break", 2, 8), sense("break", 1, 1, "n")]
    table = SenseTable(senses, max_candidates=2)
    gold = [GoldSense(0, 1, "break", tag, "break%2:00:01::") for tag in ("VERB", "NOUN")]
    verb, noun = gold_sense_candidates(["break"], gold, table, lemmatise, training=False)
    assert (verb.entities, verb.priors) == (
        ("break.v.01", "break.v.02"),
        pytest.approx((10 / 19, 9 / 19)),
    )
    assert (noun.entities, noun.priors) == ((), ())
