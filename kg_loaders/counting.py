"""A number and what it counts, as people write it: 1 text, 2 texts."""

from __future__ import annotations


def counted(n: int, things: str, form: str = "") -> str:
    """Return `n` in a format and its noun, which is given in the plural.

    >>> counted(1, "texts"), counted(2, "texts"), counted(1, "entities"), counted(0, "classes")
    ('1 text', '2 texts', '1 entity', '0 classes')
    >>> counted(1, "different texts or names")
    '1 different text or name'
    >>> counted(1234, "facts", ","), counted(1, "classes"), counted(1, "word pieces")
    ('1,234 facts', '1 class', '1 word piece')
    """
    noun = " or ".join(map(_singular, things.split(" or "))) if n == 1 else things
    return f"{n:{form}} {noun}"


def _singular(things: str) -> str:
    """
    >>> [_singular(noun) for noun in ("indices", "matches", "queries", "lines")]
    ['index', 'match', 'query', 'line']
    """
    for plural, singular in _ENDINGS:
        if things.endswith(plural):
            return things.removesuffix(plural) + singular
    return things


_ENDINGS = (("indices", "index"), ("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("s", ""))
