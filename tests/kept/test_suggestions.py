"""What is said of a name that is not there: where it ends, what is near, what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kept.errors import ConfigError, HostError
from kept.suggestions import is_there, no_such, not_there, require_local, require_there


def test_known_names_are_listed_and_near_ones_first() -> None:
    assert str(no_such("control", "x", ["off"])) == "there is no control 'x'; there are off"
    near = str(no_such("control", "of", ["off", "true"]))
    assert near == "there is no control 'of'; did you mean off? There are off, true"


def test_where_a_path_ends(tmp_path: Path) -> None:
    (tmp_path / "runs" / "kbert").mkdir(parents=True)
    (tmp_path / "file").write_text("", encoding="utf-8")
    missing = tmp_path / "runs" / "kbret" / "model"
    message = not_there(missing)
    assert message == (
        f"{missing} does not exist: there is no kbret in {tmp_path / 'runs'}; did you mean "
        f"{tmp_path / 'runs' / 'kbert'}?"
    )
    last = tmp_path / "runs" / "zzzzzzzz"
    assert not_there(last) == f"{last} does not exist"
    inside = tmp_path / "file" / "x"
    assert not_there(inside) == f"{inside} does not exist: {tmp_path / 'file'} is not a folder"


def test_paths_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text("", encoding="utf-8")
    assert not_there("tran.txt") == "tran.txt does not exist; did you mean train.txt?"
    assert not_there("no/where") == "no/where does not exist: there is no no here"
    assert is_there("train.txt")
    assert not is_there("a\0b"[:1])


def test_a_missing_file_comes_with_the_remedy(tmp_path: Path) -> None:
    require_there(tmp_path)
    with pytest.raises(ConfigError, match=r"does not exist$"):
        require_there(tmp_path / "zzzzzz")
    with pytest.raises(ConfigError, match=r"does not exist; fetch it first$"):
        require_there(tmp_path / "zzzzzz", "fetch it first")
    archive = tmp_path / "a.ZIP"
    with pytest.raises(ConfigError, match=r"a\.ZIP does not exist"):
        require_there(tmp_path / "a.ZIP::train.txt")
    archive.write_bytes(b"")
    require_there(tmp_path / "a.ZIP::train.txt")
    (tmp_path / "b.zip::c").write_text("", encoding="utf-8")
    require_there(tmp_path / "b.zip::c")  # a file of that very name


@pytest.mark.parametrize("name", ["bert", "owner/name", "a.b-c/d_e.f"])
def test_names_that_a_hub_may_have(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    require_local(name)


@pytest.mark.parametrize("name", ["./bert", "a/b/c", "/nowhere/bert", "runs/mine", "~x", ""])
def test_names_that_are_folders_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    if name == "":
        return
    with pytest.raises(HostError, match="a hub's models are called NAME or OWNER/NAME"):
        require_local(name)
    if name == "runs/mine":
        (tmp_path / name).mkdir()
        require_local(name)
