"""Forms, offsets and boundaries."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from entity_linking.surfaces import (
    _EXTEND,
    _WORD,
    _class,
    marked_keys,
    normalise,
    split_tokens,
    tokens_of,
)

ANY_TEXT = st.text(st.characters(), max_size=40)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Straße", "strasse"),
        ("İstanbul", "istanbul"),
        ("AT&amp;T", "at&t"),
        ("AT&T; Co", "at&t; co"),
        ("New_York", "new york"),
        ("B₁₂ ﬁn Ａ！", "b12 fin a!"),
        ("A–B−C", "a-b-c"),
        ("Hawaiʻi O′Neill `n`", "hawai'i o'neill 'n'"),
        ("القُدس", "القدس"),
        ("קֹדֶשׁ", "קדש"),
        ("ｶﾞ™½", "ガ™½"),
        ("Cafe\u0301", "café"),
        ("Wash\u00adington", "washington"),
        ("O’Neill", "o'neill"),
        ("ΣΊΣΥΦΟΣ", "σίσυφοσ"),
    ],
)
def test_normalise_folds(text: str, form: str) -> None:
    assert normalise(text, fold=True)[0] == form


@settings(deadline=None)
@given(ANY_TEXT, st.booleans())
def test_origins_cover_the_text_in_order(text: str, fold: bool) -> None:
    form, origins = normalise(text, fold=fold)
    if origins is None:
        assert len(form) == len(text)
        return
    starts, ends = origins
    assert len(starts) == len(ends) == len(form)
    assert starts == sorted(starts)
    assert ends == sorted(ends)
    assert all(0 <= a < b <= len(text) for a, b in zip(starts, ends, strict=True))
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        alone = normalise(text[start:end], fold=fold)[0]
        first = starts.index(start)
        assert form[i] == alone[i - first], "a cluster's form depends on nothing outside it"


@settings(deadline=None)
@given(ANY_TEXT)
def test_composed_and_decomposed_texts_share_a_form(text: str) -> None:
    text = "".join(c for c in text if not unicodedata.category(c).startswith("C"))
    composed = unicodedata.normalize("NFC", text)
    decomposed = unicodedata.normalize("NFD", text)
    if composed == unicodedata.normalize("NFC", decomposed) == normalise(composed, fold=False)[0]:
        assert normalise(decomposed, fold=False)[0] == composed


@pytest.mark.parametrize(
    ("form", "key"),
    [
        ("new york", " new  york "),
        ("u. s.", " u  .  s  . "),
        ("u.s.", " u  .  s  . "),
        ("東京都", " 東  京  都 "),
        ("iphone手机", " iphone  手  机 "),
        ("が゙行", " が゙  行 "),
        ("don't", " don't "),
        ("can't.", " can't  . "),
        ("apple's", " apple  '  s "),
        ("n'to", " n  '  to "),
        ("a_b2", " a  _  b2 "),
        ("👩\u200d💻!", " 👩\u200d💻  ! "),
    ],
)
def test_marks_stand_at_legal_boundaries(form: str, key: str) -> None:
    assert marked_keys([form]) == [key]


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=6))
def test_tokens_are_all_of_their_forms_but_white_space(forms: list[str]) -> None:
    tokens = split_tokens(forms)
    form_of = np.repeat(np.arange(len(forms)), np.diff(tokens.limits))
    for value, form, start, end in zip(
        tokens.values, form_of, tokens.starts, tokens.ends, strict=True
    ):
        assert forms[form][start:end] == value
    assert "".join(tokens.values) == "".join("".join(forms).split())


@settings(deadline=None)
@given(st.lists(ANY_TEXT, max_size=4))
def test_tokens_of_texts_are_folded_forms_of_their_stretches(texts: list[str]) -> None:
    values, starts, ends, limits = tokens_of(texts)
    for text, first, last in zip(texts, limits, limits[1:], strict=False):
        form, origins = normalise(text, fold=True)
        alone = split_tokens([form])
        assert values[first:last] == alone.values
        covered = range(len(form)) if origins is None else origins[0]
        assert [covered[i] for i in alone.starts] == starts[first:last].tolist()
        covered = range(1, len(form) + 1) if origins is None else origins[1]
        assert [covered[i - 1] for i in alone.ends] == ends[first:last].tolist()


def plain_tokens(form: str) -> list[str]:
    """The rules of `split_tokens` as a loop over characters."""
    chars = [char for char in form if not char.isspace()]
    if not chars:
        return []
    apart = [form[:i][-1:].isspace() for i, char in enumerate(form) if not char.isspace()]
    out = base = chars[0]
    for i in range(1, len(chars)):
        extends = _class(ord(chars[i])) == _EXTEND
        attached = extends or chars[i - 1] == "\u200d" or (is_word(base) and is_word(chars[i]))
        for at in (i - 2, i - 1):  # an "n't" whose apostrophe or t stands here
            if at >= 0 and "".join(chars[at : at + 3]).lower() == "n't":
                ends = at + 3 == len(chars) or apart[at + 3] or not is_word(chars[at + 3])
                attached = attached or ends
        out += chars[i] if attached and not apart[i] else "  " + chars[i]
        if apart[i] or not extends:
            base = chars[i]
    return out.split()


def is_word(char: str) -> bool:
    return _class(ord(char)) == _WORD


PIECES = st.sampled_from([*"ab1_é漢か한.'!- \n\u0301\u200d\u0651👩🏽", "n't", "N'T", "don't", "  "])
MIXED = st.lists(PIECES, max_size=12).map("".join)
SCALARS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(deadline=None)
@given(st.lists(MIXED | SCALARS, max_size=5))
@example(["n' t", "n 't", "n", "'t"])
def test_tokens_are_those_of_a_loop_over_characters(forms: list[str]) -> None:
    values, _, _, limits = split_tokens(forms)
    assert [values[a:b] for a, b in pairwise(limits)] == [plain_tokens(form) for form in forms]


def test_lone_surrogates_do_not_stop_splitting() -> None:
    assert split_tokens(["a\ud800b"]).values == ["a", "\ufffd", "b"]
