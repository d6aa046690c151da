"""Every error of `kg_loaders`, one tree.

KgError
├── DamageError       (ValueError)  a line of a source is malformed; names file, line, byte, remedy
├── SourceError       (OSError)     a source cannot be read at all: missing, cut, unknown format
├── StoreError        (ValueError)  a graph folder is missing, half-written, altered or too new
├── GraphMismatchError(ValueError)  something made with one graph's ids meets another graph
└── UnknownNodeError  (KeyError)    an identifier that the graph does not hold
"""

from __future__ import annotations


class KgError(Exception):
    """Base of all errors raised by `kg_loaders`."""


class DamageError(KgError, ValueError):
    """A malformed line, under the policy `stop`."""


class SourceError(KgError, OSError):
    """A source that cannot be read at all."""


class StoreError(KgError, ValueError):
    """A graph folder that cannot be trusted."""


class GraphMismatchError(KgError, ValueError):
    """Ids of one graph were used with another graph."""


class UnknownNodeError(KgError, KeyError):
    """An identifier that is not in the vocabulary."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""
