"""Tables that packages outside add lines to: names without imports, clashes, broken plugins."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kg_loaders.errors import PluginError
from kg_loaders.plugins import Table, plugins_of
from tests.plugins import write_metadata

GROUP = "kept.tests"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages."""
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins_of.cache_clear()
    yield tmp_path
    plugins_of.cache_clear()


def table() -> Table[int]:
    return Table(GROUP, {"one": 1}, kind=int, what="number")


def test_a_plugin_is_a_line_behind_those_of_kept(site: Path) -> None:
    (site / "plug_numbers.py").write_text("TWO = 2", encoding="utf-8")
    write_metadata(site, "plug-numbers", "1.2", {GROUP: {"two": "plug_numbers:TWO"}})
    numbers = table()
    assert (list(numbers), len(numbers), "two" in numbers) == (["one", "two"], 2, True)
    assert "plug_numbers" not in sys.modules
    assert (numbers["one"], numbers["two"], dict(numbers)) == (1, 2, {"one": 1, "two": 2})
    with pytest.raises(KeyError):
        numbers["three"]


@pytest.mark.parametrize(
    ("code", "value", "cause"),
    [
        ("1 / 0", "plug_broken:TWO", "ZeroDivisionError: division by zero"),
        ("", "plug_broken:TWO", "AttributeError"),
        ("", "plug_missing:TWO", "ModuleNotFoundError: No module named 'plug_missing'"),
    ],
)
def test_a_broken_plugin_is_an_error_with_package_cause_and_remedy(
    site: Path, code: str, value: str, cause: str
) -> None:
    (site / "plug_broken.py").write_text(code, encoding="utf-8")
    write_metadata(site, "plug-broken", "3", {GROUP: {"two": value}})
    sys.modules.pop("plug_broken", None)
    numbers = table()
    assert numbers["one"] == 1
    with pytest.raises(PluginError) as error:
        numbers["two"]
    assert f"the plugin 'two' of plug-broken 3 ({value}) in {GROUP}" in str(error.value)
    assert cause in str(error.value)
    assert "pip uninstall plug-broken" in str(error.value)


def test_a_plugin_of_another_kind_is_an_error(site: Path) -> None:
    (site / "plug_words.py").write_text("TWO = 'two'", encoding="utf-8")
    write_metadata(site, "plug-words", "1", {GROUP: {"two": "plug_words:TWO"}})
    with pytest.raises(PluginError, match=r"of plug-words 1 .* is 'two', not a builtins.int"):
        table()["two"]


def test_a_name_of_two_packages_is_an_error_where_it_is_looked_up(site: Path) -> None:
    for package in ("plug-a", "plug-b"):
        write_metadata(site, package, "1", {GROUP: {"two": "plug_numbers:TWO"}})
    write_metadata(site, "plug-c", "1", {GROUP: {"one": "plug_numbers:TWO"}})
    numbers = table()
    assert list(numbers) == ["one", "two"]
    with pytest.raises(PluginError, match=r"'two' is ambiguous: two plugins .*plug-a.*plug-b"):
        numbers["two"]
    with pytest.raises(PluginError, match=r"kept has a number of that name: 'one' of plug-c 1"):
        numbers["one"]


def test_first_screen_and_version_read_no_metadata_of_plugins() -> None:
    code = (
        "import sys, kept.apps.cli; from kept.apps.cli.first_screen import first_screen; "
        "first_screen(kept.apps.cli.app); sys.exit('importlib.metadata' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
