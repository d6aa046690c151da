"""Folders of strangers in forms that nobody thought of: opened, or refused by an error of ours.

Never run, never waited for, never read without an end; sealed again where a seal would be all that
refuses them.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from entity_linking.errors import LinkingError
from kept.errors import KeptError
from kept.model_files import MODEL, seal_model
from kg_loaders.errors import KgError
from tests.kept.apps.cli.test_path_kinds import TooLateError, limited
from tests.kept.foreign_folders import FORMS, KINDS, copy_of

OURS = (KeptError, KgError, LinkingError)
SECONDS = 60
DOES_NOT_APPLY = (StopIteration, FileNotFoundError, ValueError)
"""What a form raises for a folder that has no such file."""
LARGE = "weights are a terabyte of nothing"


def test_there_are_many_forms() -> None:
    assert len(FORMS) >= 75


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_a_folder_in_any_form(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, use = KINDS[kind]
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x"
    make(path)
    whole = copy_of(path, tmp_path / "whole")
    use(path)
    faults, n_forms = [], 0
    for name, form in FORMS.items():
        copy_of(whole, path)
        try:
            form(path)
        except DOES_NOT_APPLY:
            continue
        n_forms += 1
        if kind in ("model", "run") and name != LARGE:
            _seal_again(path)
        try:
            with limited(SECONDS):
                use(path)
        except OURS:
            pass
        except TooLateError:
            faults.append(f"{name}: does not end within {SECONDS} s")
        except Exception as error:  # noqa: BLE001 - any other is the finding
            faults.append(f"{name}: {type(error).__name__}: {error}"[:400])
        if os.path.exists("harmed"):
            os.rmdir("harmed")
            faults.append(f"{name}: its code was run")
    shutil.rmtree(path)
    assert not faults, f"{len(faults)} of {n_forms} forms:\n" + "\n".join(faults)
    assert n_forms > 35


def _seal_again(folder: Path) -> None:
    (folder / MODEL.manifest).unlink(missing_ok=True)
    with suppress(*OURS, OSError, ValueError), limited(5), suppress(RecursionError):
        seal_model(folder)
