"""Training texts of one task that another evaluates are dropped, from every task."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from entity_linking.mentions import LinkedText
from kept.errors import ConfigError
from kept.training.finetuning.joining import FurtherSets, keep_apart

NOTE = "n_train_asked_of_other_tasks_dropped"


def examples(*texts: str) -> list[Any]:
    return [SimpleNamespace(linked=LinkedText(text, ())) for text in texts]


def texts_of(sets: dict[str, list[Any]]) -> dict[str, list[str]]:
    return {name: [each.linked.text for each in part] for name, part in sets.items()}


def config(*, keep_repeats: bool = False) -> Any:
    return cast(Any, SimpleNamespace(keep_repeats=keep_repeats))


def test_no_training_text_is_evaluated_anywhere() -> None:
    sets = {"train": examples("a", "b", "x"), "dev": examples("c")}
    other = {"train": examples("c", "d", "d"), "dev": examples("x"), "test": examples("a", "e")}
    further = [FurtherSets("other", config(), other, {})]
    assert keep_apart(config(), sets, further) == {NOTE: 3}
    assert texts_of(sets) == {"train": ["b"], "dev": ["c"]}
    assert texts_of(other) == {"train": ["d", "d"], "dev": ["x"], "test": ["a", "e"]}


def test_nothing_is_dropped_where_repeats_are_kept_or_there_is_one_task() -> None:
    sets, other = {"train": examples("a"), "dev": examples("a")}, {"train": examples("a")}
    assert keep_apart(config(), sets, []) == {}
    further = [FurtherSets("other", config(), other, {})]
    assert keep_apart(config(keep_repeats=True), sets, further) == {}
    assert texts_of(sets)["train"] == texts_of(other)["train"] == ["a"]


def test_a_task_whose_training_texts_are_all_evaluated_is_an_error() -> None:
    sets = {"train": examples("b"), "dev": examples("a")}
    further = [FurtherSets("other", config(), {"train": examples("a"), "dev": []}, {})]
    with pytest.raises(ConfigError, match="all training texts of other are evaluated by another"):
        keep_apart(config(), sets, further)
    with pytest.raises(ConfigError, match="of the run's own task are evaluated"):
        keep_apart(config(), {"train": examples("a"), "dev": examples("a")}, further)
