"""Simple texts are cut by a regular expression as by arrays."""

from __future__ import annotations

import re
from itertools import accumulate

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking import surfaces
from entity_linking.simple_texts import SIGNS, SPACED, UNSPACED, cut, cut_folded
from entity_linking.surfaces import cut_texts, normalise

PIECES = st.sampled_from(
    ["n", "t", "N", "T", "'", "\u2019", " ", "\t", "&", "&amp;", "é", "ß", "İ", "ŉ", "ⁿ", "東",
     "ア", "ン", "한", "_", "`", ".", "\u0301", "и\u0301", "\u0330", "\u200d", "\u00ad", "Ａ",
     "ﬁ", "٣", "א", "\x00", "Don't"]
)  # fmt: skip
MIXED = st.lists(PIECES, max_size=14).map("".join)
SIMPLE = st.text(
    st.characters(max_codepoint=0x2FF) | st.sampled_from("nNtT'’ 東京ラ한"), max_size=20
)


def test_simple_characters_are_folded_into_their_own_kind() -> None:
    kinds = {SPACED: {1, 2, 3}, UNSPACED: {surfaces._UNSPACED}, SIGNS: {1, 2}}
    n_checked = 0
    for ranges, allowed in kinds.items():
        is_in = re.compile(f"[{ranges}]").match
        for code in range(0x10000):
            if 0xD800 <= code < 0xE000 or not is_in(chr(code)):
                continue
            n_checked += 1
            char, kind = chr(code), surfaces._class(code)
            form, _ = normalise(char, fold=True)
            assert kind in allowed, hex(code)
            assert {surfaces._class(ord(each)) for each in form} == {kind}, hex(code)
            assert kind == surfaces._WORD or len(form) == 1, hex(code)
            assert not any(map(surfaces._continues, char + form)), hex(code)
            assert (form == "'") == (char in "'\u2019"), hex(code)
            assert not form.endswith("n") or char in "nN", hex(code)
            assert not form.startswith("t") or char in "tT", hex(code)
            assert bool(re.match(r"\s", char)) == (kind == surfaces._SPACE), hex(code)
            assert bool(re.match(r"[^\W_]", char)) == char.isalnum(), hex(code)
    assert n_checked > 30_000


@settings(deadline=None, max_examples=400)
@given(MIXED | SIMPLE)
def test_words_and_places_are_those_of_the_arrays(text: str) -> None:
    arrays = cut_texts([text])
    folded = cut_folded(text)
    if folded is not None:
        words, limits = folded
        assert limits == np.stack([arrays.starts, arrays.ends], axis=1).ravel().tolist()
        assert [normalise(word, fold=True)[0] for word in words] == arrays.words()
    parts = cut(text)
    if parts is None:
        return
    assert "".join(parts) == text
    limits = list(accumulate(map(len, parts)))
    assert limits[:-1:2] == arrays.starts.tolist()
    assert limits[1::2] == arrays.ends.tolist()
    assert [normalise(word, fold=True)[0] for word in parts[1::2]] == arrays.words()


def test_what_is_not_simple_is_refused() -> None:
    for text in ("e\u0301", "a_b", "n 't", "n' t", "AT&amp;T", "\u00ad", "क", "👩\u200d💻", "ไทย"):
        assert cut(text) is None, text
    for text in ("", "Don't, l'Été", "Straße İzmir", "東京タワー 한국", "AT&T;", "(don’t)"):
        assert cut(text) is not None, text
