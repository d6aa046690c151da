"""Case policies: which ways to write a name are the name.

"sensitive" takes the text as it is; "insensitive" folds both sides; "smart" lets a text raise the
case of a name, never lower it: "asthma" is found in "Asthma", "Paris" in "PARIS", but "Apple" not
in "apple" nor "US" in "us". It takes the name as it is, with its first letter raised, in capitals
if it is longer than three characters, with the names of Greek letters raised (TNF-Alpha), and with
all words raised if it is in lower case, also those behind a hyphen; where a name is written just
so, only such names count.

Where a graph writes every name as a sentence begins (`is_sentence_case`: "Gefitinib", "Valproic
acid"), its first capital says nothing, and "smart" also finds "gefitinib" and "valproic acid".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from entity_linking.names.rules.spelt import SMALL_LETTERS
from entity_linking.names.rules.words import CONNECTORS

Case = Literal["smart", "sensitive", "insensitive"]
CASES: tuple[Case, ...] = get_args(Case)
LONGEST_ACRONYM = 3
_DOTTED = str.maketrans("i", "İ")
"""Where a name has a dotted capital I, its small i has one, too: İZMİR."""
_LETTER_NAME = re.compile(rf"(?<![^\W_])(?:{'|'.join(SMALL_LETTERS)})(?![^\W_])")
_WORD = re.compile(r"(?<![^ -])[^ -]+")
_BEHIND_HYPHEN = re.compile(rf"-(?:{'|'.join(sorted(CONNECTORS))})(?=-)", re.IGNORECASE)

_CAPITAL, _SMALL = r"^\p{Lu}\p{Ll}", r"^\p{Ll}"
_LATER_CAPITAL, _LATER_SMALL = r"[ -]\p{Lu}", r"[ -]\p{Ll}{4}"
FEWEST = 5
"""Names of several words that a graph must write like a sentence before this counts."""
MOST_SMALL = 0.02
"""Share of names that may begin with a small letter."""
LEAST_SENTENCE = 0.25
"""Share of sentence case in the names of several words that begin with a capital. DrugBank has .47,
labels of Wikidata .06, of which 15 % begin with a small letter."""


def is_sentence_case(names: Sequence[pa.LargeStringArray]) -> bool:
    """Whether the names begin with capitals as sentences do, not because they are proper names.

    So it is if hardly any name begins with a small letter, and names of several words go on with
    small ones ("Valproic acid"), which names of people, places and works do not ("Anna Berg").

    >>> drugs = ["Gefitinib", "Valproic acid", "Folic acid", "Insulin human", "Salicylic acid"]
    >>> is_sentence_case([pa.array([*drugs, "Ferric citrate"], pa.large_string())])
    True
    >>> is_sentence_case([pa.array([*drugs, *["Anna Berg"] * 20], pa.large_string())])
    False
    """
    n_names = n_small = n_titles = n_sentences = 0
    for part in names:
        capital, title, later = (
            pc.match_substring_regex(part, pattern)
            for pattern in (_CAPITAL, _LATER_CAPITAL, _LATER_SMALL)
        )
        sentence = pc.and_(capital, pc.and_not(later, title))
        n_names += len(part)
        n_small += pc.sum(pc.match_substring_regex(part, _SMALL)).as_py() or 0
        n_titles += pc.sum(pc.and_(capital, title)).as_py() or 0
        n_sentences += pc.sum(sentence).as_py() or 0
    is_raised = n_small <= MOST_SMALL * n_names
    n_several = n_sentences + n_titles
    return is_raised and n_sentences >= FEWEST and n_sentences >= LEAST_SENTENCE * n_several


def raised_forms(form: str) -> list[str]:
    """Other ways to write a name under the case policy "smart", distinct.

    >>> raised_forms("asthma attack")
    ['Asthma attack', 'ASTHMA ATTACK', 'Asthma Attack']
    >>> raised_forms("mother-in-law")
    ['Mother-in-law', 'MOTHER-IN-LAW', 'Mother-In-Law', 'Mother-in-Law']
    """
    ways = [form[0].upper() + form[1:]]
    if len(form) > LONGEST_ACRONYM:
        ways.append(form.upper())
        if "İ" in form:
            ways.append(form.translate(_DOTTED).upper())
        if "ß" in form:
            ways.append(form.replace("ß", "ẞ").upper())
    if form.islower():
        ways.append(" ".join(word[0].upper() + word[1:] for word in form.split()))
        if "-" in form:
            raised = _WORD.sub(_capital, form)
            ways += [raised, _BEHIND_HYPHEN.sub(lambda match: match[0].lower(), raised)]
    elif (lettered := _LETTER_NAME.sub(_capital, form)) != form:
        ways += [lettered, lettered[0].upper() + lettered[1:]]
    return [way for way in dict.fromkeys(ways) if way != form]


def _capital(word: re.Match[str]) -> str:
    return word[0][0].upper() + word[0][1:]
