"""Near names, and where they are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from kept.apps.cli.comparing.compare_run import control_names
from kept.errors import ConfigError
from kept.heads.model import head_kind
from kept.lab.comparison.files import find_experiment
from kept.objectives.model import objective_kind
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import UnknownNodeError
from kg_loaders.spelling import did_you_mean


def test_nothing_near_is_nothing_said() -> None:
    assert did_you_mean("xyz", ["ernie", "kbert"]) == ""


def test_an_identifier(small_graph: KnowledgeGraph) -> None:
    with pytest.raises(UnknownNodeError, match=r"'Q83014' is not .* did you mean Q830149"):
        small_graph.entities.id("Q83014")


def test_parts_of_a_configuration() -> None:
    with pytest.raises(ConfigError, match="no control 'shufled'; did you mean shuffled"):
        control_names("shufled")
    with pytest.raises(ConfigError, match="no head 'pooling'; did you mean pooled"):
        head_kind("pooling")
    with pytest.raises(ConfigError, match="no objective 'mml'; did you mean mlm"):
        objective_kind("mml")


def test_an_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "experiments" / "x").mkdir(parents=True)
    (tmp_path / "experiments" / "x" / "my-own.yaml").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="did you mean wiki80"):
        find_experiment("wiki8")
    with pytest.raises(ConfigError, match="did you mean my-own"):
        find_experiment("myown")
