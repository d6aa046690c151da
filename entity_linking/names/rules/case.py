"""Case policies: which ways to write a name are the name.

"sensitive" takes the text as it is; "insensitive" folds both sides; "smart" lets a text raise the
case of a name, never lower it: "asthma" is found in "Asthma", "Paris" in "PARIS", but "Apple" not
in "apple" nor "US" in "us". It takes the name as it is, with its first letter raised, in capitals
if it is longer than three characters, with the names of Greek letters raised (TNF-Alpha), and with
all words raised if it is in lower case, also those behind a hyphen; where a name is written just
so, only such names count.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

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
