"""Ways to spell one name: letters without diacritics, Greek letters by name, plurals.

They are forms of a name that a text may hold; `entity_linking.spellings` has what is the same
character by character. Rules of English and of scientific names, fitted to no data.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from entity_linking.spellings import twin

LETTERS = str.maketrans(
    {
        "ß": "ss", "ẞ": "SS", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D",
        "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ı": "i", "þ": "th", "Þ": "Th", "ð": "d",
        "Ð": "D", "ħ": "h", "Ħ": "H",
    }
)  # fmt: skip
_OPENED = {"Æ": "Ae", "Œ": "Oe"}
_JOINED_CAPITAL = re.compile("[ÆŒ](?=[^\\W\\d_A-Z])")
"""A capital of two letters before a small one, of which the second is small when it is parted."""
GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta",
    "η": "eta", "θ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu",
    "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "phi", "χ": "chi",
    "ψ": "psi", "ω": "omega", "Δ": "Delta", "Γ": "Gamma", "Ω": "Omega", "Σ": "Sigma",
    "Λ": "Lambda", "Φ": "Phi", "Ψ": "Psi", "Θ": "Theta", "Π": "Pi",
}  # fmt: skip
"""Greek letters that stand in names for themselves, as those of genes and stars do."""
LATIN = {"α": "a", "β": "b", "γ": "g", "δ": "d", "κ": "k"}
"""What is typed in their place: NF-kB, TNF-a."""
NAMED_LETTERS = {name: letter for letter, name in GREEK.items()}
SHORTEST_GREEK = 4
"""Characters that a form needs in which a Latin letter stands for a Greek one."""
_GREEK = re.compile(r"(?<![\u0370-\u03ff])[\u0370-\u03ff](?![\u0370-\u03ff])")
_GREEK_NAME = re.compile(
    rf"(?<=-)(?:{'|'.join(NAMED_LETTERS)})(?![^\W_])|\b(?:{'|'.join(NAMED_LETTERS)})(?=-)"
)
_AT_HYPHEN = re.compile(r"-(?=[\u0370-\u03ff](?:[A-Z]|[0-9]{1,2})?(?![^\W_]))")
_WITHOUT_HYPHEN = re.compile(r"(?<=[A-Z])(?=[\u0370-\u03ff](?:[0-9]{1,2})?(?![^\W_]))")
_BEFORE_SIGN = re.compile(r"(?<![\u0370-\u03ff])[\u0370-\u03ff](?=(?:[A-Z]|[0-9]{1,2})(?![^\W_]))")
"""A Greek letter before a capital or a short number: NF-κB, TGF-β1."""
SMALL_LETTERS = [name for name in NAMED_LETTERS if name.islower() and len(name) > 2]
_LAST_LETTER = re.compile(rf"(?<=[^\W_]) ({'|'.join(SMALL_LETTERS)})$")
"""A Greek letter's name as the last word: interferon gamma, but not Delta Air Lines."""
_POSSESSIVE = re.compile(r"^([^\W\d_]\w+)['’]s(?= [a-z])")
_NOUN = re.compile(r"(?:^| )[A-Z0-9]+ (?:.* )?[a-z]+(?:[a-rt-z]|us|ss|sis)$")
_COMPOUND = re.compile(r"([A-Za-z]+[a-rt-z])-(?:at|by|de|in|of|on|out|to|up)(?:-(?:[a-z]+)){0,2}$")
"""A noun before a preposition: mother-in-law, passer-by, aide-de-camp; Stoke-on-Trent is none."""
IRREGULAR = {"man", "woman"}
_SIBILANT = ("ch", "sh", "x", "z", "s")
_VOWELS = "aeiou"
_LETTER_FIRST = re.compile(r"^([A-Za-z]) (?=[A-Za-z]{2,}(?:$| ))")
LOWERED = {"İ": "i", "Ё": "е"}
"""First letters that are often typed as another letter, and then small."""


def unmarked(form: str) -> str:
    """The form with plain letters in the place of those with diacritics; punctuation stays.

    Marks are dropped only where they are diacritics (U+0300 to U+036F), never the vowel signs of
    other scripts.

    >>> unmarked("Côte d'Ivoire"), unmarked("Straße des 17. Juni"), unmarked("Æsir")
    ("Cote d'Ivoire", 'Strasse des 17. Juni', 'Aesir')
    """
    if form.isascii():
        return form
    loose = unicodedata.normalize("NFD", _JOINED_CAPITAL.sub(lambda m: _OPENED[m[0]], form))
    loose = loose.translate(LETTERS)
    loose = "".join(c for c in loose if not "\u0300" <= c <= "\u036f")
    return unicodedata.normalize("NFC", loose)


def spellings(name: str) -> Iterator[str]:
    """Other spellings of a name, the likeliest first; some may come twice.

    >>> list(spellings("TNF-α"))
    ['TNF-alpha', 'TNF-a', 'TNFα', 'TNFalpha']
    >>> list(spellings("T cell")), list(spellings("Alzheimer's disease"))
    (['T-cell', 'T cells', 'T-cells'], ['Alzheimer disease'])
    >>> list(spellings("interferon gamma")), list(spellings("NF-κB"))[:3]
    (['interferon γ', 'interferon-γ', 'interferon-gamma'], ['NF-kappaB', 'NF-kappa B', 'NF-kB'])
    """
    if not name.isascii():
        plain = unmarked(name)
        yield from _if_other(name, plain)
        if name[0] in LOWERED:
            yield LOWERED[name[0]] + plain[1:]
        yield from _greek(name)
    elif "-" in name:
        letters = _GREEK_NAME.sub(lambda match: NAMED_LETTERS[match[0]], name)
        yield from _if_other(name, letters)
    if last := _LAST_LETTER.search(name):
        begin, letter = name[: last.start()], NAMED_LETTERS[last[1]]
        yield from (f"{begin} {letter}", f"{begin}-{letter}", f"{begin}-{last[1]}")
    yield from _if_other(name, _POSSESSIVE.sub(r"\1", name))
    hyphened = _LETTER_FIRST.sub(r"\1-", name)
    yield from _if_other(name, hyphened)
    if plural := plural_of(name):
        yield plural
        if hyphened != name:
            yield plural_of(name, hyphened)


def _greek(name: str) -> Iterator[str]:
    """A name with Greek letters that stand alone: by name, in Latin, without or with a hyphen."""
    name = "".join(map(twin, name))  # µ of the keyboard is the letter μ
    if not _GREEK.search(name) or len(name) < SHORTEST_GREEK:
        return
    by_name = _GREEK.sub(lambda match: GREEK.get(match[0], match[0]), name)
    yield from _if_other(name, by_name)
    yield from _if_other(name, _BEFORE_SIGN.sub(lambda m: f"{GREEK.get(m[0], m[0])} ", name))
    yield from _if_other(name, _GREEK.sub(lambda match: LATIN.get(match[0], match[0]), name))
    for form in (_AT_HYPHEN.sub("", name), _WITHOUT_HYPHEN.sub("-", name)):
        if form != name:
            yield form
            yield from _if_other(form, _GREEK.sub(lambda m: GREEK.get(m[0], m[0]), form))


def _if_other(name: str, form: str) -> Iterator[str]:
    if form != name and form.strip():
        yield form


def plural_of(name: str, form: str | None = None) -> str:
    """The English plural of a name that ends with a common noun after capitals, else "".

    So has a compound with its noun before a preposition, which takes the plural. Other common nouns
    have none: it would link words of the language rather than names.

    >>> plural_of("T cell"), plural_of("DNA library"), plural_of("Paris"), plural_of("killer whale")
    ('T cells', 'DNA libraries', '', '')
    >>> plural_of("RNA virus"), plural_of("PCR analysis"), plural_of("T cells")
    ('RNA viruses', 'PCR analyses', '')
    >>> plural_of("mother-in-law"), plural_of("passer-by"), plural_of("lady-in-waiting")
    ('mothers-in-law', 'passers-by', 'ladies-in-waiting')
    """
    if compound := _COMPOUND.match(name):
        return _plural_noun(compound[1]) + name[compound.end(1) :]
    if not _NOUN.search(name):
        return ""
    return _plural_noun(form or name)


def _plural_noun(noun: str) -> str:
    if noun.endswith("y") and noun[-2] not in _VOWELS:
        return noun[:-1] + "ies"
    if noun in IRREGULAR or noun.lower() in IRREGULAR:
        return noun[:-2] + "en"
    if noun.endswith("sis"):
        return noun[:-2] + "es"
    return noun + ("es" if noun.endswith(_SIBILANT) else "s")
