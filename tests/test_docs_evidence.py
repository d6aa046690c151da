"""docs/results/evidence.md and the README's results: each number is in the file that it names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/results/evidence.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)[^)]*\)")
NUMBER = re.compile(r"(?<![\w.-])[+-]?(\d+\.\d+|\.\d+|\d+)(?![\w.]\d|[A-Za-z-])")
OUTSIDE = "measured once, outside of this repository"
HEAD = ("claim", "result", "file", "seeds", "data sets", "controls", "smallest visible effect")
PARTS = ("**Helps.**", "**Does not, or is not shown to.**", "**Never tested.**")


def rows() -> list[dict[str, str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    head, _, *cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert tuple(head) == HEAD
    assert {len(row) for row in cells} == {len(HEAD)}
    return [dict(zip(HEAD, row, strict=True)) for row in cells]


ROWS = rows()
MEASURED = [row for row in ROWS if LINK.search(row["file"])]


def objects(value: Any) -> Iterator[list[float]]:
    """The numbers of each mapping that holds numbers itself."""
    if isinstance(value, dict):
        yield [float(v) for v in value.values() if isinstance(v, int | float)]
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            yield from objects(each)


def lines_of(path: Path) -> list[list[float]]:
    """The numbers that are together in a file: those of a line, or of a mapping of JSON."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return list(objects(json.loads(text)))
    return [[float(n) for n in re.findall(r"\d*\.?\d+", line)] for line in text.splitlines()]


def holds(line: list[float], number: str) -> bool:
    """Whether a line has a number, rounded as it is printed, as it is or in per cent."""
    places = len(number.partition(".")[2])
    return any(
        abs(abs(value) * scale - float(number)) <= 0.5 * 10**-places + 1e-9
        for value in line
        for scale in ((1, 100) if float(number) > 1 else (1,))
    )


def missing(text: str, paths: list[Path]) -> list[str]:
    """The items of a text, with ";" between them, whose numbers no line of the files holds."""
    lines = [line for path in paths for line in lines_of(path)]
    items = [NUMBER.findall(item) for item in text.split(";")]
    return [
        " ".join(item)
        for item in items
        if item and not any(all(holds(line, n) for n in item) for line in lines)
    ]


def files(text: str, folder: Path) -> list[Path]:
    return [(folder / target).resolve() for target in LINK.findall(text)]


def name(row: dict[str, str]) -> str:
    return row["claim"][:60]


def test_first_what_helps_then_what_does_not_then_what_was_never_tested() -> None:
    beginnings = [row["claim"] for row in ROWS if row["claim"].startswith("**")]
    assert [claim.partition("** ")[0] + "**" for claim in beginnings] == list(PARTS)
    assert ROWS[0]["claim"] == beginnings[0]
    assert len(MEASURED) >= 20
    assert {row["file"] for row in ROWS if row not in MEASURED} == {OUTSIDE, "–"}
    assert all(row["result"].startswith("not ") for row in ROWS if row["file"] == "–")
    assert [row["file"] for row in ROWS].count(OUTSIDE) == 1


@pytest.mark.parametrize("row", MEASURED, ids=name)
def test_numbers_are_those_of_the_file(row: dict[str, str]) -> None:
    paths = files(row["file"], PAGE.parent)
    assert NUMBER.search(row["result"])
    assert missing(row["result"], paths) == []
    assert missing(row["smallest visible effect"], paths) == []
    seeds, texts = row["seeds"], [path.read_text(encoding="utf-8") for path in paths]
    known = (f"--seeds {seeds}", f"{seeds} seeds", f'"seeds": {seeds}')
    assert seeds == "1" or any(each in text for each in known for text in texts), seeds


def test_a_number_of_no_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "results.md"
    path.write_text("| words | 0.862 [0.8, 0.9] | -0.091 |\n| other | 0.500 |\n")
    assert missing("words .862, .091; other .500", [path]) == []
    assert missing("words .862, .500", [path]) == [".862 .500"]
    assert missing("misled 51.9 % of K-BERT's", [path]) == ["51.9"]
    (tmp_path / "results.json").write_text(json.dumps({"a": [{"right": 0.12583, "seeds": 5}]}))
    assert missing(".126, 5 seeds; .127", [tmp_path / "results.json"]) == [".127"]


def test_the_text_around_the_table_has_no_number_that_the_table_lacks() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    table = " ".join(line for line in lines if line[:1] == "|")
    text = re.sub(r"`[^`]*`|\bof \.9\b", "", "\n".join(line for line in lines if line[:1] != "|"))
    known = set(re.findall(r"\.\d{3}", table))
    assert set(re.findall(r"\.\d{3}\b", text)) <= known


def test_results_of_the_readme_are_those_of_their_files() -> None:
    """Each point that has a score names its file."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.split("## Does knowledge help?")[1].split("\n## ")[0]
    points = section.split("\n- ")[1:]
    assert len(points) >= 4
    n_checked = 0
    for point in points:
        for sentence in re.split(r"(?<=[.:)])\s+(?=[A-Z*])", point):
            scores = re.findall(r"(?<![\w])\.\d+|\d+(?:\.\d+)? %", LINK.sub("", sentence))
            if scores:
                paths = [path for path in files(point, ROOT) if path != PAGE]
                assert paths, sentence
                numbers = ";".join(score.removesuffix(" %") for score in scores)
                assert missing(numbers, paths) == [], sentence
                n_checked += len(scores)
    assert n_checked >= 4
