"""Released weights are known by what they hold, in whatever file they lie."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.kgc.completers.ultra import open_ultra
from kept.kge.ultra.networks import make_ultra
from kept.kge.ultra.released import RELEASED, released, weights_hash
from kg_loaders import Triple, graph_from_records


def test_weights_of_ones_own_are_none_of_them() -> None:
    torch.manual_seed(0)
    weights = dict(make_ultra(width=4, n_layers=1).state_dict())
    assert released(weights) is None
    name = next(iter(weights))
    other = weights | {name: weights[name] + 1}
    assert weights_hash(other) != weights_hash(weights)
    assert weights_hash(dict(reversed(weights.items()))) == weights_hash(weights)


@pytest.mark.data
def test_the_released_file_is_known_and_what_it_has_seen_is_said(
    data_root: Path, tmp_path: Path
) -> None:
    file = data_root / "ultra" / "ultra_4g.safetensors"
    weights = open_ultra(file).weights()
    known = released(weights)
    assert known is not None
    assert known.name == "ultra_4g"
    assert RELEASED[weights_hash(load_file(file))] is known
    save_file({f"{n}": v for n, v in weights.items()}, tmp_path / "copy.safetensors")
    graph_from_records([Triple(f"Q{i}", "P1", f"Q{i * 7 % 40}") for i in range(40)]).save(
        tmp_path / "kg"
    )
    line = ["kgc", "train", str(tmp_path / "kg"), "-o", str(tmp_path / "m"), "--scorer", "ultra"]
    result = CliRunner().invoke(app, [*line, "--weights", str(tmp_path / "copy.safetensors")])
    assert result.exit_code == 0, result.output
    seen = "ultra_4g, trained on FB15k-237, WN18RR, CoDEx-M and NELL-995; these hold all triples"
    assert seen in result.output
    result = CliRunner().invoke(
        app, ["kgc", "eval", str(tmp_path / "kg"), "-m", str(tmp_path / "m")]
    )
    assert result.exit_code == 0, result.output
    assert seen in result.output
