"""Signs and letters that are written in several ways and mean the same, character by character.

Typographic twins become the sign on a keyboard: dashes and the minus are hyphens, apostrophes,
primes, the ʻokina, the backtick and the acute accent that stands alone are apostrophes, `_` is a
blank (`New_York`). Unicode's compatible forms of letters and figures become these (`B₁₂`, `ﬁ`,
`Ａ`); signs such as `™` and `½` stay. The vowel marks of Arabic and Hebrew, which most texts leave
out, and the Arabic stroke that lengthens a word go. A character reference (`&amp;`) is its sign.
"""

from __future__ import annotations

import functools
import html
import re
import unicodedata

SOFT_HYPHEN = 0xAD
_APOSTROPHES = "\u2018\u2019\u201b\u02bb\u02bc\u02bd\u02be\u02bf\u02b9\u2032\u00b4\u055a\u05f3`"
_HYPHENS = "\u2010\u2011\u2012\u2013\u2043\u2212\u05be"
_QUOTES = "\u201c\u201d\u201e\u201f\u2033\u05f4"
VOWEL_MARKS = frozenset(
    map(
        chr,
        (
            *range(0x064B, 0x0653), 0x0670, 0x0640,
            *range(0x0591, 0x05BE), 0x05BF, 0x05C1, 0x05C2, 0x05C4, 0x05C5, 0x05C7,
        ),
    )
)  # fmt: skip
TATWEEL = 0x0640
_PLAIN: dict[int, str] = {
    SOFT_HYPHEN: "",
    ord("_"): " ",
    **dict.fromkeys(map(ord, _APOSTROPHES), "'"),
    **dict.fromkeys(map(ord, _HYPHENS), "-"),
    **dict.fromkeys(map(ord, _QUOTES), '"'),
    **dict.fromkeys(map(ord, VOWEL_MARKS), ""),
}
_NOT_PLAIN = frozenset(map(chr, _PLAIN))
VOICED = {"\uff9e", "\uff9f"}
"""Voice marks of half-width kana, which belong to the letter before them."""
REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


def made_plain(text: str) -> str:
    """The text with the signs of a keyboard, and without vowel marks.

    >>> made_plain("Hawaiʻi–Guinea_Bissau")
    "Hawai'i-Guinea Bissau"
    """
    return text if _NOT_PLAIN.isdisjoint(text) else text.translate(_PLAIN)


def has_twin(text: str) -> bool:
    """Whether a character of the text is a compatible form of another letter, figure or sign."""
    if unicodedata.is_normalized("NFKC", text):
        return False
    return any(twin(char) != char for char in set(text) if char > "\x7f")


@functools.lru_cache(4_096)
def twin(char: str) -> str:
    """The letters, figures or keyboard sign that `char` is a compatible form of, else `char`.

    >>> twin("₂"), twin("ﬁ"), twin("Ａ"), twin("！"), twin("™"), twin("½")
    ('2', 'fi', 'A', '!', '™', '½')
    """
    form = unicodedata.normalize("NFKC", char)
    if char.isalnum() and form.isalnum():
        return form
    is_sign = len(form) == 1 and form.isascii() and form.isprintable() and form != " "
    return made_plain(form) if is_sign else char


def without_twins(cluster: str) -> str:
    """A character and the marks that follow it, in the plain form of each.

    >>> without_twins("ｶﾞ")
    'ガ'
    """
    if not VOICED.isdisjoint(cluster):
        return unicodedata.normalize("NFKC", cluster)
    return unicodedata.normalize("NFC", "".join(map(twin, cluster)))


def folded(text: str) -> str:
    """The text without case; `İ` is an i, without the dot that Unicode would put over it.

    >>> folded("İzmir"), folded("Straße")
    ('izmir', 'strasse')
    """
    form = text.casefold()
    return form.replace("i\u0307", "i") if "\u0307" in form else form


def referenced(text: str, start: int) -> tuple[str, int] | None:
    """The one sign that a character reference at `start` stands for, and where it ends.

    >>> referenced("AT&amp;T", 2), referenced("AT&T; Co", 2)
    (('&', 7), None)
    """
    match = REFERENCE.match(text, start)
    if match is None:
        return None
    sign = html.unescape(match[0])
    return (sign, match.end()) if len(sign) == 1 else None


def has_reference(text: str) -> bool:
    """Whether a character reference stands in the text."""
    return any(referenced(text, match.start()) for match in REFERENCE.finditer(text))
