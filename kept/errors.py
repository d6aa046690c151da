"""Every error of `kept`, one tree.

KeptError
├── BatchError       (ValueError)   a KnowledgeBatch or word-knowledge graph breaks an invariant
├── ConfigError      (ValueError)   configuration: all faults at once, each with its field
│   ├── NoControlError              a control that shows a model what the true graph shows
│   └── NoKnowledgeError            a method that would read the graph gets nothing from it
├── HostError        (ValueError)   a host model that a method cannot take
├── CheckpointError  (ValueError)   a checkpoint that is missing, cut, altered or of another graph
├── EvaluationError  (ValueError)   a metric asked of data on which it means nothing
├── TrainingError    (ArithmeticError) a loss or gradient that is not finite, a process that is lost
│   └── UnfinishedError             a training that its budget or a request ended early
└── MissingExtraError(ImportError)  an optional package; names the extra that installs it
"""

from __future__ import annotations


class KeptError(Exception):
    """Base of all errors raised by `kept`."""


class BatchError(KeptError, ValueError):
    """A batch or word-knowledge graph breaks an invariant."""


class ConfigError(KeptError, ValueError):
    """Faulty configuration."""


class NoControlError(ConfigError):
    """A control that shows a model just what the true graph shows."""


class NoKnowledgeError(ConfigError):
    """A method that would read the graph gets nothing from it."""


class HostError(KeptError, ValueError):
    """A host model that a method cannot take."""


class CheckpointError(KeptError, ValueError):
    """A checkpoint that cannot be trusted or does not fit."""


class EvaluationError(KeptError, ValueError):
    """A metric asked of data on which it means nothing."""


class TrainingError(KeptError, ArithmeticError):
    """Training that cannot go on: a loss or gradient is not finite, another process has ended."""


class UnfinishedError(TrainingError):
    """A model is asked whose training ended early, by its budget or as asked."""


class MissingExtraError(KeptError, ImportError):
    """An optional package is not installed."""
