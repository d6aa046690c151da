"""The types and shapes of `kept` are checked in every test."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
import torch
from beartype import beartype
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from kept.batches import KnowledgeBatch
from kept.layers.means import mean_of
from tests.kept.tiny_hosts import small_batch
from tests.shape_checks import check_types

if TYPE_CHECKING:
    from pathlib import Path

mark = check_types(typechecker=beartype)


@mark
def repeat(word: str, n: Any) -> str:
    return word * n if word != "number" else n


@mark
def add(one: Float[Tensor, " row"], other: Float[Tensor, " row"]) -> Float[Tensor, " row"]:
    return one + other if len(one) > 1 else one.expand(3)


@mark
def sizes(pair: tuple[Float[Tensor, " row"], Float[Tensor, " row"]]) -> int:
    return sum(map(len, pair))


@mark
def name_of(path: Path) -> str:
    return str(path)


def test_types_of_arguments_and_answers_are_checked() -> None:
    assert repeat("ab", 2) == "abab"
    with pytest.raises(BeartypeCallHintViolation, match="word"):
        repeat(3, 2)  # type: ignore[arg-type]
    with pytest.raises(BeartypeCallHintViolation, match="return"):
        repeat("number", 2)
    assert repeat.__annotations__ == {"word": "str", "n": "Any", "return": "str"}


def test_axes_of_one_name_have_one_size() -> None:
    assert len(add(torch.ones(2), torch.ones(2))) == 2
    with pytest.raises(TypeCheckError, match="other"):
        add(torch.ones(2), torch.ones(1))
    with pytest.raises(TypeCheckError, match="return"):
        add(torch.ones(1), torch.ones(1))
    assert sizes((torch.ones(2), torch.ones(2))) == 4
    with pytest.raises(TypeCheckError, match="pair"):
        sizes((torch.ones(2), torch.ones(1)))


def test_a_type_that_only_type_checkers_import_is_not_checked() -> None:
    assert name_of(3) == "3"  # type: ignore[arg-type]


def test_the_packages_of_models_are_checked() -> None:
    with pytest.raises(BeartypeCallHintViolation, match="total"):
        mean_of(3, 4)  # type: ignore[arg-type]
    batch = small_batch()
    with pytest.raises(BeartypeCallHintViolation, match="layout"):
        KnowledgeBatch.stack([batch], layout="wide")  # type: ignore[arg-type]
    with pytest.raises(TypeCheckError, match="node_mask"):
        dataclasses.replace(batch, node_mask=batch.node_mask[0])
