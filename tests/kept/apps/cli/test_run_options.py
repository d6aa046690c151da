"""`kept finetune` and `pretrain` are declared once: options, help, Python and files agree."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from pydantic import BaseModel, Field
from typer.testing import CliRunner

import kept
from kept.apps.cli.declared import Declared
from kept.errors import ConfigError, HostError
from kept.training.config import RunConfig, TrainConfig
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.options import FinetuneOptions
from kept.training.options import RunOptions
from kept.training.pretraining.config import PretrainConfig
from kept.training.pretraining.options import PretrainOptions

START = {"output", "config", "settings", "track", "resume", "skip_damaged"}
"""Options about the start of a command, which are no fields of a run."""


class Sample(RunConfig):
    """Options of every kind."""

    path: Path = Field(json_schema_extra={"short": "-p"})
    rate: float | None = Field(None, ge=0.5, le=2, json_schema_extra={"flag": "--lr"})
    part: tuple[str, ...] = Field((), json_schema_extra={"metavar": "PART"})
    host: str | None = Field(None, json_schema_extra={"check": "local or hub"})
    go: bool = False


RUNS: dict[str, tuple[type[RunOptions], type[BaseModel], set[str]]] = {
    "finetune": (FinetuneOptions, FinetuneConfig, START | {"data"}),
    "pretrain": (PretrainOptions, PretrainConfig, START | {"objective"}),
}
"""Options, configuration, and options about the start, of each command."""
CASES = [
    (name, *pair) for name, (model, _, _) in RUNS.items() for pair in model.configured().items()
]


def own_field(model: type[BaseModel], name: str) -> Any:
    """The field of a run's configuration that an option is."""
    *groups, last = name.split(".")
    for group in groups:
        assert group == "training"
        model = TrainConfig
    return model.model_fields[last]


def limits(field: Any) -> dict[str, Any]:
    inner = [each for arm in get_args(field.annotation) for each in get_args(arm)[1:]]
    limits_of_fields: dict[str, Any] = {}
    for each in [*inner, *field.metadata]:
        for name in ("ge", "le", "gt"):
            if getattr(each, name, None) is not None:
                limits_of_fields[name] = getattr(each, name)
    return limits_of_fields


@pytest.mark.parametrize("name", RUNS)
def test_every_option_is_a_field_or_about_the_start(name: str) -> None:
    model, _, start = RUNS[name]
    fields = model.configured()
    assert set(model.model_fields) == start | set(fields)
    assert len(fields) == len(set(fields.values())) >= 22


@pytest.mark.parametrize(("name", "option", "field"), CASES)
def test_an_option_has_the_limits_of_its_field(name: str, option: str, field: str) -> None:
    options, config, _ = RUNS[name]
    ours, theirs = limits(options.model_fields[option]), limits(own_field(config, field))
    if "le" in theirs:
        assert ours["le"] == theirs["le"]
    if theirs.get("gt") == 0 and "ge" in ours:
        assert 0 < ours["ge"] <= 1
    if "ge" in theirs:
        assert ours["ge"] == theirs["ge"]


def test_what_is_left_out_is_left_to_the_configuration() -> None:
    assert FinetuneOptions(output=Path("run")).fields() == {}
    options = FinetuneOptions(
        output=Path("run"), adapter=(Path("a"),), learning_rate=1e-3, link=False, shard=("tables",)
    )
    assert options.fields() == {
        "adapters": (Path("a"),), "training.learning_rate": 1e-3, "link": False,
        "training.shard": ("tables",),
    }  # fmt: skip


def test_objectives_are_named_with_their_default_options() -> None:
    options = PretrainOptions(output=Path("run"), objective=("mlm", "dea"), warmup_steps=0)
    expected = {"objectives": {"mlm": {}, "dea": {}}, "training.warmup_steps": 0}
    assert options.fields() == expected


@pytest.mark.parametrize("name", RUNS)
def test_the_function_has_the_options_of_the_command(name: str) -> None:
    function = getattr(kept, name)
    parameters = inspect.signature(function).parameters
    options = RUNS[name][0]
    fields = sorted(options.model_fields, key=lambda field: field not in options.__annotations__)
    by_place = ["data", "kg"] if "data" in fields else []  # as in kept.fit(data, graph)
    assert list(parameters) == [*by_place, *(n for n in fields if n not in by_place)]
    positional = [n for n, each in parameters.items() if each.kind is not each.KEYWORD_ONLY]
    assert positional == by_place
    assert parameters["output"].default is inspect.Parameter.empty
    assert parameters["resume"].default is False
    with pytest.raises(ConfigError, match="learning_rate"):
        function(output="run", learning_rate=100)


def test_an_option_of_every_kind(tmp_path: Path) -> None:
    parsed: list[Any] = []

    def sample(options: Sample) -> None:
        """Take options."""
        parsed.append(options)

    app = typer.Typer()
    app.command()(Declared(f"{__name__}:Sample", sample))
    sys.modules.setdefault(__name__, sys.modules[sample.__module__])
    run = CliRunner().invoke
    done = run(app, ["-p", str(tmp_path), "--lr", "1.5", "--part", "a", "--part", "b", "--go"])
    assert done.exit_code == 0, done.output
    assert parsed == [Sample(path=tmp_path, rate=1.5, part=("a", "b"), go=True)]
    assert run(app, ["-p", "x"]).exit_code == 0
    assert parsed[1] == Sample(path=Path("x"))
    assert "PART" in run(app, ["--help"]).output
    for words in (["--lr", "3"], ["--no-go"], ["--rate", "1"], []):
        assert run(app, words).exit_code == 2, words
    with pytest.raises(HostError, match="does not exist"):
        run(app, ["-p", "x", "--host", "no/such/host"], catch_exceptions=False)


def test_the_declaration_loads_no_torch() -> None:
    modules = "kept.training.finetuning.options, kept.training.pretraining.options"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
