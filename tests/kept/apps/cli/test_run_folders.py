"""Two commands that name one folder for their runs: one has it, the other touches nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from kept.apps.cli.training.run import run_folder
from kg_loaders.errors import ExistsError, InUseError
from tests.forked import warm


@contextmanager
def another_run(folder: Path, what: str) -> Iterator[BaseProcess]:
    """A process that holds `folder` until it is sent a line, and then `writes` into it or not."""
    children = warm()
    here, there = children.Pipe()
    process = children.Process(target=hold, args=(folder, what, there))
    process.start()
    there.close()
    with here:
        assert here.recv() == "held"
        try:
            yield process
        finally:
            here.send("go on")
            process.join(60)


def hold(folder: Path, what: str, parent: Connection) -> None:
    with run_folder(folder, "run.json"):
        parent.send("held")
        parent.recv()
        if what == "writes":
            (folder / "run.json").write_text("{}")


@pytest.mark.parametrize("inside", ["run", "a/b/run"])
def test_the_second_run_leaves_the_first_its_empty_folder(tmp_path: Path, inside: str) -> None:
    folder = tmp_path / inside
    with another_run(folder, "writes") as first:
        with (
            pytest.raises(InUseError, match="is being written by another process"),
            run_folder(folder, "run.json"),
        ):
            raise AssertionError("two runs hold one folder")
        assert folder.is_dir(), "the run that was refused took the folder of the other away"
    assert first.exitcode == 0
    assert (folder / "run.json").read_text() == "{}"
    assert sorted(path.name for path in folder.parent.iterdir()) == ["run"]


def test_a_run_that_wrote_nothing_leaves_no_folder(tmp_path: Path) -> None:
    with another_run(tmp_path / "run", "nothing"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_link_and_its_folder_are_one(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    with (
        another_run(tmp_path / "run", "nothing"),
        pytest.raises(InUseError),
        run_folder(tmp_path / "link", "run.json"),
    ):
        raise AssertionError("two runs hold one folder")


def test_what_came_while_the_lock_was_waited_for_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    with pytest.raises(ExistsError, match="thesis"), run_folder(folder, "run.json"):
        raise AssertionError
    assert (folder / "thesis.txt").read_text() == "mine"
