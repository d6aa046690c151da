"""`kept kgc train`, cut between any two steps: the same command goes on to the same scorer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from kept.kge.resuming.snapshots import Snapshots
from tests.kept.apps.cli.kgc.kgc_toy import done, kept

OPTIONS: dict[str, tuple[Any, ...]] = {
    "complex": ("--epochs", 6, "--width", 8),
    "rgcn": ("--epochs", 6, "--width", 8),
    "bertmk": ("--epochs", 6, "--width", 8),
    "ultra": ("--epochs", 2, "--width", 8, "--batch-size", 8),
    "nbfnet": ("--epochs", 2, "--width", 8, "--batch-size", 8),
    "simkgc": ("--epochs", 2, "--batch-size", 8),
    "dkrl": ("--epochs", 3, "--batch-size", 8),
    "kepler": ("--epochs", 2, "--batch-size", 8),
    "colake": ("--epochs", 2, "--batch-size", 8),
}


class Cut(BaseException):
    """As a kill would end it: nothing tidies up."""


def cut_after(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the n-th state be the last that is written."""
    write, written = Snapshots.write, []

    def counting(self: Snapshots, state: Mapping[str, Any]) -> None:
        write(self, state)
        written.append(1)
        if len(written) == n:
            raise Cut

    monkeypatch.setattr(Snapshots, "write", counting)


def timeless(folder: Path) -> dict[str, Any]:
    """What `model.json` says of the training."""
    training: dict[str, Any] = json.loads((folder / "model.json").read_text())["training"]
    return training


@pytest.mark.parametrize("scorer", OPTIONS)
def test_a_cut_training_goes_on_to_the_same_end(
    scorer: str, chain: Path, host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = ("--host", host) if scorer in ("simkgc", "dkrl", "kepler", "colake") else ()
    line = ("train", chain, "--scorer", scorer, *OPTIONS[scorer], *hosts)
    whole = tmp_path / "whole"
    done(*line, "-o", whole)
    for n in (1, 4):
        cut = tmp_path / f"cut-{n}"
        with monkeypatch.context() as patch:
            cut_after(n, patch)
            with pytest.raises(Cut):
                kept(*line, "-o", cut, "--checkpoint-seconds", 0)
        assert (tmp_path / f"cut-{n}.training").is_dir()
        assert not cut.exists()
        assert "goes on with" in done(*line, "-o", cut).stdout
        assert not (tmp_path / f"cut-{n}.training").exists()
        resumed, wanted = (load_file(one / "model.safetensors") for one in (cut, whole))
        assert resumed.keys() == wanted.keys()
        assert all(resumed[name].equal(wanted[name]) for name in wanted)
        assert timeless(cut) == timeless(whole)


def test_the_half_done_training_of_other_options_is_refused(
    chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = ("train", chain, "--width", 8, "-o", tmp_path / "m")
    with monkeypatch.context() as patch:
        cut_after(1, patch)
        with pytest.raises(Cut):
            kept(*line, "--epochs", 3, "--checkpoint-seconds", 0)
    refusal = kept(*line, "--epochs", 4)
    assert refusal.exit_code == 1
    assert "an unfinished training with other settings (epochs: 3, now 4)" in " ".join(
        refusal.stderr.split()
    )
    rerun = done(*line, "--epochs", 4, "--force")
    assert "goes on with" not in rerun.stdout
    assert [one.name for one in tmp_path.iterdir()] == ["m"]


def test_a_training_killed_before_it_had_tidied_up_is_tidied(
    chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = ("train", chain, "--width", 8, "--epochs", 2, "-o", tmp_path / "m")
    with monkeypatch.context() as patch:
        patch.setattr(Snapshots, "remove", lambda self: None)
        done(*line)
    assert {one.name for one in tmp_path.iterdir()} == {"m", "m.training"}
    assert "exists" in kept(*line).stderr
    assert [one.name for one in tmp_path.iterdir()] == ["m"]


def test_a_damaged_state_is_refused(
    chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = ("train", chain, "--width", 8, "--epochs", 2, "-o", tmp_path / "m")
    with monkeypatch.context() as patch:
        cut_after(1, patch)
        with pytest.raises(Cut):
            kept(*line, "--checkpoint-seconds", 0)
    path = tmp_path / "m.training" / "state" / "state.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    refusal = kept(*line)
    assert refusal.exit_code == 1
    assert "remove the folder and train again" in " ".join(refusal.stderr.split())
