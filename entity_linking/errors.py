"""Every error of `entity_linking`, one tree.

LinkingError        (ValueError)  a mention, link or annotation that contradicts itself or its text
├── AlignmentError                characters that no word piece covers
├── LinkIndexError                a folder of an index that is damaged, or of another graph
└── ScoreError                    a score, interval or fit asked of data on which it means nothing
"""

from __future__ import annotations


class LinkingError(ValueError):
    """A mention, link or annotation that contradicts itself or its text."""


class AlignmentError(LinkingError):
    """A mention that no word piece covers."""


class LinkIndexError(LinkingError):
    """A folder of an index that is damaged, unfinished, or made from another graph."""


class ScoreError(LinkingError):
    """A score, interval or fit asked of data on which it means nothing."""
