"""Language tags as every reader gives them: well-formed (BCP 47) and in lower case.

A tag that a reader let through and a writer cannot hold would be found when a graph is exported;
so `en_US`, as locales are written, becomes `en-us` at the door, and what is not a tag is refused.
"""

from __future__ import annotations

from functools import lru_cache

import pyoxigraph as ox

MALFORMED = "malformed language tag"
_CODES = {"zh-classical": "lzh"}
"""Wikimedia's own code of a wiki that is not a tag, and the language's tag."""


def normal_tag(text: str) -> str:
    """Return the tag in the form that graphs hold; what is not a tag stays as it is.

    >>> normal_tag("pt_BR"), normal_tag("no tag")
    ('pt-br', 'no tag')
    """
    tag = language_tag(text)
    return text if tag is None else tag


@lru_cache(maxsize=10_000)
def language_tag(text: str) -> str | None:
    """Return the tag in the form that graphs hold, None for what is none; "" stays "".

    >>> language_tag("en_US"), language_tag("de-CH"), language_tag(""), language_tag("e n")
    ('en-us', 'de-ch', '', None)
    """
    tag = text.strip().replace("_", "-").lower()
    tag = _CODES.get(tag, tag)
    if not tag:
        return None if text else ""
    try:
        return str(ox.Literal("", language=tag).language)
    except ValueError:
        return None
