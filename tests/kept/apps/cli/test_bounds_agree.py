"""The bounds that the help of an option names are those by which values are refused, everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.training.config import TrainConfig
from tests.fuzz.options import LINES, commands, make_place

FIELDS = {
    "learning_rate": "learning_rate", "entity_learning_rate": "entity_learning_rate",
    "warmup_steps": "warmup_steps", "steps": "steps", "epochs": "epochs",
    "batch_size": "batch_size", "node_budget": "node_budget", "threads": "threads",
    "workers": "workers", "seed": "seed", "budget_minutes": "budget_minutes",
    "evaluate_every": "evaluate_every",
}  # fmt: skip
"""From the parameters of commands that train to the fields of `TrainConfig` that they set."""
MORE_LINES = (
    "fit x.tsv --kg kg -o out", "serve --kg gone", "vectors compare gone", "link train gone -o out",
    "check analogies gone", "check layers gone", "link encoder gone -o out",
    "link tagger gone -o out",
)  # fmt: skip
REFUSAL = re.compile(
    r"greater than|less than|or more|or less|at least|at most|must be|is not in the range|from \d"
)


def info(option: Any) -> Any:
    """The declaration of an option: annotation, least and greatest value."""
    return option.type_descriptor


def is_number(option: Any) -> bool:
    return info(option).annotation in (int, float)


def numbers() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every option of every command that takes a number, with the words of the command."""
    for names, command in commands():
        for option in command.params:
            if is_number(option):
                yield names, option


def options() -> list[Any]:
    return [
        pytest.param(option, id=f"{names[0]}-{option.name}")
        for names, option in numbers()
        if names in (("finetune",), ("pretrain",)) and option.name in FIELDS
    ]


def least(option: Any) -> float:
    """The least value that is taken; a small one for a number above 0."""
    value: float | None = info(option).parameter_info.min
    return 0.01 if value is None else value


def configuration(field: str, value: float) -> TrainConfig:
    lengths = {} if field == "epochs" else {"steps": 10}
    sizes = {} if field == "node_budget" else {"batch_size": 2}
    return TrainConfig.model_validate({**lengths, **sizes, field: value})


@pytest.mark.parametrize("option", options())
def test_help_and_configuration_have_the_same_bounds(option: Any) -> None:
    field = FIELDS[option.name]
    configuration(field, least(option))
    if field != "warmup_steps":  # which is bounded by the length of the run
        configuration(field, info(option).parameter_info.max)
    below = -1 if least(option) == 0 else 0
    with pytest.raises(ValidationError):
        configuration(field, below)


def test_every_field_is_compared() -> None:
    assert len(options()) >= 18
    assert len(list(numbers())) >= 90


def test_every_number_has_both_bounds() -> None:
    """In its range, or where a bound is no part of the range, in words."""
    without = []
    for names, option in numbers():
        bounds = info(option).parameter_info
        for bound, word in ((bounds.min, "ore than"), (bounds.max, "ess than")):
            if bound is None and word not in option.help:
                without.append(f"{' '.join(names)} {option.opts[0]}")
    assert without == []


def test_the_help_shows_the_bounds_that_refuse() -> None:
    """A number beyond a bound is refused, by the range that the help page shows."""
    runner, pages = CliRunner(), {}
    for names, option in numbers():
        if names not in pages:
            pages[names] = runner.invoke(app, [*names, "--help"], env={"COLUMNS": "200"}).output
        bounds = info(option).parameter_info
        kind = info(option).annotation
        for bound, beyond in ((bounds.min, -1), (bounds.max, 1)):
            if bound is None:
                continue
            value = str(kind(bound + beyond))
            done = runner.invoke(app, [*names, option.opts[0], value], env={"COLUMNS": "200"})
            assert done.exit_code == 2, (names, option.opts, value, done.output)
            assert "Invalid value" in done.output, (names, option.opts, value, done.output)
            sign = "<=x" if beyond < 0 else "x<="
            number = f"{bound}{sign}" if beyond < 0 else f"{sign}{bound}"
            assert number in pages[names], (names, option.opts, number)


def test_the_least_value_is_taken_by_what_is_behind_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that ends at once does not end because of a value that its help allows."""
    folder = tmp_path / "place"
    make_place(folder)
    monkeypatch.chdir(folder)
    by_command = {
        names: line.split()
        for line in (*LINES, *MORE_LINES)
        for names, _ in commands()
        if tuple(line.split()[: len(names)]) == names
    }
    tried = 0
    for names, option in numbers():
        words = by_command.get(names)
        if words is None or option.opts[0] in words:
            continue
        done = CliRunner().invoke(app, [*words, option.opts[0], str(least(option))])
        assert done.exit_code != 70, (words, option.opts, done.output)
        name = option.opts[0].removeprefix("--").replace("-", "[-_]")
        refused = [
            line for line in done.output.splitlines()
            if re.search(rf"\b({name}|{option.name})\b", line) and REFUSAL.search(line)
        ]  # fmt: skip
        assert not refused, (words, option.opts, least(option), refused)
        tried += 1
    assert tried >= 60
