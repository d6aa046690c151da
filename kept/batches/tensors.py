"""A `KnowledgeBatch` as a dictionary of tensors, which other libraries move and pass on.

Axis legend: batch, node.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from kept.batches.batch import EXTRA_FILLS, KnowledgeBatch
from kept.batches.visibility import Visibility, derived
from kept.errors import BatchError

_FIELDS = {field.name for field in dataclasses.fields(KnowledgeBatch)}


def tensors_of(batch: KnowledgeBatch) -> dict[str, Tensor]:
    """Return the fields that `batch` has; a further vocabulary's is called `extra_ids.NAME`.

    Raises `BatchError` for fields of whole triples, which are no tensors.
    """
    tensors: dict[str, Tensor] = {}
    for name, value in vars(batch).items():
        if isinstance(value, Visibility):
            tensors[name] = value.mask
        elif isinstance(value, Mapping):
            tensors |= {f"{name}.{key}": one for key, one in value.items()}
        elif isinstance(value, Tensor):
            tensors[name] = value
        elif value is not None:
            raise BatchError(f"{name} of a batch is no tensor, so the batch has no such form")
    return tensors


def batch_of(tensors: Mapping[str, Tensor]) -> KnowledgeBatch:
    """Return the batch that `tensors_of` gave, on the device of its tensors; it is not checked.

    Raises `BatchError` for a name that is no field.
    """
    fields: dict[str, Any] = dict.fromkeys(_FIELDS)
    for name, value in tensors.items():
        field, _, key = name.partition(".")
        if field not in _FIELDS or bool(key) != (field in EXTRA_FILLS):
            raise BatchError(f"{name!r} is no field of a batch; give what tensors_of returned")
        if key:
            fields[field] = {**(fields[field] or {}), key: value}
        else:
            fields[field] = derived(Visibility, {"mask": value}) if field == "visibility" else value
    return derived(KnowledgeBatch, fields)
