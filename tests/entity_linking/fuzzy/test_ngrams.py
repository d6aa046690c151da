from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking.errors import LinkingError
from entity_linking.fuzzy.ngrams import Name, NameSegment, build_segment, form_of, gram_sets

UNBOUNDED = 10**9


def _grams(form: str) -> set[str]:
    padded = f" {form} "
    return {padded[i : i + n] for n in (2, 3, 4) for i in range(len(padded) - n + 1)}


def _cosine(a: str, b: str) -> float:
    first, second = _grams(a), _grams(b)
    return len(first & second) / math.sqrt(len(first) * len(second))


def _random_names(n_names: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    letters = list("aábcdeß 汉字")
    names = [
        form_of("".join(generator.choice(letters, int(generator.integers(1, 12)))))
        for _ in range(n_names)
    ]
    return [name for name in dict.fromkeys(names) if name]


def _nearest(
    segment: NameSegment, form: str, n: int, max_postings: int = UNBOUNDED
) -> list[tuple[int, float]]:
    names, cosines = segment.nearest(gram_sets([form])[0], n, max_postings)
    return list(zip(names.tolist(), cosines.tolist(), strict=True))


def test_cosine_is_that_of_sets() -> None:
    forms = _random_names(300, 0)
    segment = build_segment([Name(f"Q{i}", form) for i, form in enumerate(forms)])
    for query in [*forms[:40], *_random_names(40, 1)]:
        cosines = {i: _cosine(query, form) for i, form in enumerate(forms)}
        expected = sorted((-c, i) for i, c in cosines.items() if c)
        actual = _nearest(segment, query, len(forms))
        assert [i for i, _ in actual] == [i for _, i in expected]
        assert [c for _, c in actual] == pytest.approx([-c for c, _ in expected])
        assert _nearest(segment, query, 7) == actual[:7]


def test_skipped_n_grams_still_count() -> None:
    forms = _random_names(300, 2)
    segment = build_segment([Name(f"Q{i}", form) for i, form in enumerate(forms)])
    for query in forms[:40]:
        actual = dict(_nearest(segment, query, 5, max_postings=1))
        assert actual
        assert actual == pytest.approx({i: _cosine(query, forms[i]) for i in actual})


@settings(deadline=None)
@given(st.lists(st.text(max_size=12), min_size=1, max_size=6))
def test_gram_sets_in_batches(texts: list[str]) -> None:
    forms = [form for form in map(form_of, texts) if form]
    together, alone = gram_sets(forms), [gram_sets([form])[0] for form in forms]
    assert [grams.tolist() for grams in together] == [grams.tolist() for grams in alone]
    assert all((np.diff(grams.astype(np.int64)) > 0).all() for grams in together)


def test_names_of_one_form_are_one_name() -> None:
    segment = build_segment(
        [Name("Q2", "BONN", 3), Name("Q1", "Bonn"), Name("Q2", " bonn", 5), Name("Q3", "\t")]
    )
    assert segment.n_names == 1
    assert segment.surfaces.to_pylist() == ["BONN"]
    assert dict(segment.bearers_of(0)) == {"Q2": 5, "Q1": 1}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (Name("Q1", "Bonn", 0), "weight 0"),
        (Name("Q1", "Bonn", 2**31), "weight 2147483648"),
        (Name("Q1", "Bo\ud800n"), "surrogate"),
    ],
)
def test_wrong_names_are_told(name: Name, message: str) -> None:
    with pytest.raises(LinkingError, match=message):
        build_segment([name])


def test_nothing_is_near_in_an_empty_segment() -> None:
    assert _nearest(build_segment([]), "bonn", 3) == []
