"""Where a word stands in a sentence, in whatever inflected form: English, by rules."""

from __future__ import annotations

import re

from entity_linking.mentions import Mention

ENDINGS = frozenset({"s", "es", "d", "ed", "ing", "er", "r", "est", "st", "n", "en", "t"})
IRREGULAR = {
    "be": "am are is was were been being", "have": "has had", "do": "does did done", "go": "went",
    "make": "made", "bring": "brought", "buy": "bought", "catch": "caught", "seek": "sought",
    "teach": "taught", "think": "thought", "say": "said", "stand": "stood", "flee": "fled",
    "understand": "understood", "withstand": "withstood", "leave": "left", "see": "saw",
    "shoe": "shod", "slay": "slew", "mouse": "mice", "louse": "lice", "die": "dice",
    "person": "people", "child": "children", "ox": "oxen", "good": "better best", "pay": "paid",
    "bad": "worse worst", "lay": "laid lain", "lie": "lay lain", "light": "lit", "strike": "struck",
    "stick": "stuck", "work": "wrought", "undergo": "underwent", "forgo": "forwent",
    "clothe": "clad", "cleave": "cleft cloven", "bereave": "bereft", "eat": "ate",
}  # fmt: skip
"""Forms that no rule below finds."""
_WORD = re.compile(r"\w+(?:['-]\w+)*|\w")


def find_form(word: str, sentence: str) -> Mention | None:
    """The first best form of `word`: itself, a regular form, an irregular one, one by ablaut.

    Ablaut: the same consonants in the same order around other vowels, perhaps with an ending
    ("drew", "written"), beginning alike. Parts of hyphenated words count last. None if there is no
    form.

    >>> find_form("carry", "He carried on.")
    Mention(start=3, end=10)
    """
    lemma = word.lower()
    word_spans = [(m.start(), m.end()) for m in _WORD.finditer(sentence)]
    parts = [
        (start + p.start(), start + p.end())
        for start, end in word_spans
        for p in re.finditer(r"\w+", sentence[start:end])
    ]
    for spans in (word_spans, parts):
        forms = [sentence[start:end].lower().removesuffix("'s") for start, end in spans]
        for is_form in (_same, _regular, _irregular, _ablaut):
            for (start, _), form in zip(spans, forms, strict=True):
                if is_form(lemma, form):
                    return Mention(start, start + len(form))
    return None


def _same(lemma: str, form: str) -> bool:
    return form == lemma


def _regular(lemma: str, form: str) -> bool:
    stems = {lemma, lemma.removesuffix("e"), lemma + lemma[-1], lemma + "k"}
    if lemma.endswith("y"):
        stems.add(lemma[:-1] + "i")
    if lemma.endswith("ie"):
        stems.add(lemma[:-2] + "y")
    if lemma.endswith(("f", "fe")):
        stems.add(lemma.removesuffix("e")[:-1] + "v")
    if lemma.endswith(("z", "s")):
        stems.add(lemma + lemma[-1] + "e")
    return any(form.startswith(stem) and form[len(stem) :] in ENDINGS for stem in stems)


def _irregular(lemma: str, form: str) -> bool:
    return form in IRREGULAR.get(lemma, "").split()


def _ablaut(lemma: str, form: str) -> bool:
    ours, theirs = _consonants(lemma), _consonants(form)
    return (
        lemma[0] == form[0]
        and len(form) > 1
        and ours != ""
        and (theirs in {ours + ending for ending in ("", "n", "t", "d", "s")} | {_sharp(ours)})
        and abs(len(form) - len(lemma)) < 3
    )


def _sharp(consonants: str) -> str:
    """A d at the end as t: send, sent."""
    return consonants[:-1] + "t" if consonants.endswith("d") else consonants


def _consonants(word: str) -> str:
    """Without vowels, w and y included, doubled letters once."""
    return re.sub(r"(.)\1+", r"\1", re.sub(r"[aeiouwy]", "", word))
