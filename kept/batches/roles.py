"""What an entity of a text's subgraph is to the text."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    """The numbers enter tensors. A text alone is a question; a second text is an answer."""

    QUESTION = 0
    ANSWER = 1
    OTHER = 2
