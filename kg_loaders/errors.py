"""Every error of `kg_loaders`, one tree.

KgError
├── DamageError       (ValueError)  a line of a source is malformed; names file, line, byte, remedy
├── SourceError       (OSError)     a source cannot be read at all: missing, cut, unknown format
│   └── BudgetError                 reading it would cost more than the reader's budget allows
├── WriteError        (OSError)     an output cannot be written: no room, no folder, no permission
│   ├── ExistsError                 it is there already, or is one of the inputs
│   └── InUseError                  another process is at work on it
├── StoreError        (ValueError)  a graph folder is missing, half-written, altered or too new
├── QueryError        (ValueError)  a query that cannot be asked
├── GraphMismatchError(ValueError)  something made with one graph's ids meets another graph
├── MissingPackageError(ImportError) an optional package; names the extra that installs it
├── PluginError       (ImportError) a plugin of another package that is broken, or named as another
├── UnknownNodeError  (KeyError)    an identifier that the graph does not hold
│   └── AmbiguousNameError          a name that several entities have
├── NodeIdError       (IndexError)  what is not an id: a name for an integer, or a number outside
└── InternalError     (RuntimeError) a fault of kept's own or of its installation, of no file
"""

from __future__ import annotations


class KgError(Exception):
    """Base of all errors raised by `kg_loaders`."""


class DamageError(KgError, ValueError):
    """A malformed line, under the policy `stop`."""


class SourceError(KgError, OSError):
    """A source that cannot be read at all."""


class WriteError(KgError, OSError):
    """An output that cannot be written; what was there before is untouched."""


class ExistsError(WriteError):
    """An output that is there already and may not be replaced, or is an input."""


class InUseError(WriteError):
    """Another process is at work on the same output."""


class BudgetError(SourceError):
    """A source that asks for more than `kg_loaders.budget.ReaderBudget` allows."""


class StoreError(KgError, ValueError):
    """A graph folder that cannot be trusted."""


class QueryError(KgError, ValueError):
    """A query that cannot be asked."""


class GraphMismatchError(KgError, ValueError):
    """Ids of one graph were used with another graph."""


class MissingPackageError(KgError, ImportError):
    """An optional package is not installed."""


class PluginError(KgError, ImportError):
    """A plugin of another package cannot be used; names the package and what to do."""


class UnknownNodeError(KgError, KeyError):
    """An identifier that is not in the vocabulary."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class AmbiguousNameError(UnknownNodeError):
    """A name that several entities have; the message lists them."""


class NodeIdError(KgError, IndexError):
    """What is not an id of this graph: a name where an integer is due, or a number outside."""


class InternalError(KgError, RuntimeError):
    """A fault in kept or in how it is installed; what it was given is not to blame."""
