"""Spellings made from names by rule, in several sentences: linked, at the offsets of their making.

A name is written anew by one change that readers do not see or do not mind (a dash, an apostrophe,
composed or decomposed letters, full width, capitals, a hyphen that is invisible); the right
offsets are those at which the test put it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest

from entity_linking import DictionaryLinker
from kg_loaders import Text, TextKind, graph_from_records

NAMES = (
    "Guinea-Bissau", "Hawaiʻi", "İzmir", "vitamin B₁₂", "القدس", "TNF-α", "T cell", "New York",
    "Straße", "O'Neill", "São Paulo", "naïve Bayes", "שלום", "東京都", "カタカナ", "Ελλάδα", "café",
    "NF-κB", "Schrödinger–Newton equation", "Ⅻ Legion", "Łódź", "Æsir", "interferon gamma",
    "Việt Nam", "Dvořák", "AT&T", "Œuvre",
)  # fmt: skip
LINKER = DictionaryLinker(
    graph_from_records([Text(name, TextKind.LABEL, name, "en") for name in NAMES])
)
FRAMES = (("We saw ", " today."), ("", "."), ("«", "»"), ("👩‍🚀 e\u0301 ", "\u00a0there"))


def fullwidth(name: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in name)


CHANGES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "decomposed": lambda name: unicodedata.normalize("NFD", name),
    "composed": lambda name: unicodedata.normalize("NFC", name),
    "a soft hyphen": lambda name: f"{name[:2]}\u00ad{name[2:]}",
    "full width": fullwidth,
    "a reference": lambda name: name.replace("&", "&amp;").replace("'", "&#39;"),
    **{
        f"the hyphen U+{code:04X}": lambda name, code=code: name.replace("-", chr(code)).replace(  # type: ignore[misc]
            "–", chr(code)
        )
        for code in (0x2D, 0x2010, 0x2011, 0x2012, 0x2013, 0x2212, 0xFE63, 0xFF0D)
    },
    **{
        f"the apostrophe U+{code:04X}": lambda name, code=code: name.replace(  # type: ignore[misc]
            "'", chr(code)
        ).replace("ʻ", chr(code))
        for code in (0x27, 0x2019, 0x2018, 0x2BC, 0x2BB, 0x2032, 0x60, 0xB4)
    },
    **{
        f"the blank U+{code:04X}": lambda name, code=code: name.replace(" ", chr(code))  # type: ignore[misc]
        for code in (0x5F, 0xA0, 0x2009, 0x202F, 0x3000, 0x9, 0xA)
    },
}
CASES = sorted({(change(name), name) for change in CHANGES.values() for name in NAMES})
EXAMPLES = [
    ("İZMİR", "İzmir"), ("i\u0307zmir", "İzmir"), ("STRASSE", "Straße"), ("STRAẞE", "Straße"),
    ("Strasse", "Straße"), ("Aesir", "Æsir"), ("Oeuvre", "Œuvre"), ("Lodz", "Łódź"),
    ("interferon γ", "interferon gamma"), ("interferon-γ", "interferon gamma"),
    ("interferon-gamma", "interferon gamma"), ("TNF-alpha", "TNF-α"), ("TNFα", "TNF-α"),
    ("NF-kappa B", "NF-κB"), ("NF-kappaB", "NF-κB"), ("NFκB", "NF-κB"), ("NF-kB", "NF-κB"),
    ("T cells", "T cell"), ("T-cell", "T cell"), ("القُدس", "القدس"), ("القـدس", "القدس"),
    ("שָׁלוֹם", "שלום"), ("ｶﾀｶﾅ", "カタカナ"), ("XII Legion", "Ⅻ Legion"),
    ("vitamin B12", "vitamin B₁₂"),
    ("Viet Nam", "Việt Nam"), ("DVOŘÁK", "Dvořák"), ("NEW YORK", "New York"),
    ("GUINEA-BISSAU", "Guinea-Bissau"), ("ΕΛΛΆΔΑ", "Ελλάδα"), ("CAFÉ", "café"),
]  # fmt: skip


def test_there_are_many() -> None:
    assert len(CASES) > 100


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize(("written", "name"), [*CASES, *EXAMPLES])
def test_a_spelling_is_linked_where_it_stands(
    written: str, name: str, frame: tuple[str, str]
) -> None:
    before, after = frame
    actual = {
        (link.mention.start, link.mention.end)
        for link in LINKER.link(f"{before}{written}{after}").links
        if link.entity == name
    }
    assert actual == {(len(before), len(before) + len(written))}


@pytest.mark.parametrize(
    "text",
    [
        "Delta Air Lines", "a straw", "New Yorker", "NewYork", "cafeteria", "O'Neillson", "AT&Tx",
        "interferon", "gamma", "TNF", "izmirli", "Bissau", "T cellar", "kappa B", "Dvořákova",
    ],
)  # fmt: skip
def test_another_word_is_not(text: str) -> None:
    assert not LINKER.link(f"We saw {text} today.").links
