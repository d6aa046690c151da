"""Names in the code: those of the glossary's left column can only become fewer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests import names


def test_no_room_has_more_unwanted_names_than_its_number() -> None:
    allowed, counts = names.allowed(), names.numbers(names.GUARDED)
    more = {room: n for room, n in counts.items() if n > allowed.get(room, 0)}
    assert more == {}, "rename them: `python -m tests.names ROOM` lists them with what to write"


def test_writing_the_numbers_never_raises_one() -> None:
    after = names.lowered(Counter({"a": 3, "b": 1, "new": 2}), {"a": 2, "b": 5, "gone": 1})
    assert after == {"a": 2, "b": 1, "new": 2}


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "def f(found): pass",
        "def _found(): pass",
        "class Found: pass",
        "self.found = 1",
        "for found in x: pass",
        "import x as found",
        "with x as found: pass",
        "[0 for found in x]",
        "(found := 1)",
        "match x:\n    case [found]: pass",
    ],
)
def test_every_way_to_bind_a_name_counts(source: str) -> None:
    words = names.glossary()
    assert [names.unwanted(each.name, words) for each in names.bindings(source)].count("found") == 1


def test_a_use_is_not_counted_again() -> None:
    assert [each.name for each in names.bindings("x = found + self.found")] == ["x"]


def test_words_within_a_name() -> None:
    words = names.glossary()
    assert names.unwanted("WithBeside", words) == names.unwanted("scores_beside", words) == "beside"
    assert names.unwanted("n_found", words) is names.unwanted("profound", words) is None
    assert names.unwanted("World", words) == "world"
    assert names.unwanted("world", words) is None


def test_a_room_above_its_number_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "kept" / "linking").mkdir(parents=True)
    (tmp_path / "kept" / "linking" / "a.py").write_text("told = found = 1\n", encoding="utf-8")
    monkeypatch.setattr(names, "ROOT", tmp_path)
    assert names.numbers(("kept",)) == {"kept/linking": 2}
    assert names.table().splitlines()[-1].split()[-1] == "2"
