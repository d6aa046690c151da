"""docs/results/results.md: rows name their sources; our numbers are those of committed files."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from kept.apps.cli import app
from kept.joint.assembly import MODELS
from kept.lab.comparison.files import shipped_experiments
from kept.methods import METHODS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/results/results.md").read_text(encoding="utf-8")
INTRODUCTION, *PARTS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
SECTIONS = {part.partition("\n")[0]: part.partition("\n")[2] for part in PARTS}
SOURCES = SECTIONS.pop("Sources")
CHECKED = SECTIONS.pop("Each system: what is checked, and what is not")
PAPERS = set(re.findall(r"([\w-]+): [A-Z]\w+ et al\. \d{4}", SOURCES)) | {"Zhen et al."}
NUMBER = re.compile(r"\d+(?:\.\d+)?")
NOT_RUN = "not run"
LINK = re.compile(r"\[results\]\(([^)]+)\)")


def table(section: str) -> list[list[str]]:
    """The cells of its rows; the head and the rule are the first two."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


ROWS = [row for section in SECTIONS.values() for row in table(section)[2:]]
OURS = [row for row in ROWS if any("**kept**" in cell for cell in row)]
PUBLISHED = [row for row in ROWS if row not in OURS]
PLANNED = [row for row in OURS if any(cell.startswith(NOT_RUN) for cell in row)]
MEASURED = [row for row in OURS if row not in PLANNED]
COMMANDS = sorted({command for row in PLANNED for command in re.findall(r"`(.+?)`", row[-1])})


def name(row: list[str]) -> str:
    return " ".join(row[:2])


def scores(row: list[str]) -> list[str]:
    """Its numbers: cells between the names and `where` that are scores, with their intervals."""
    cells = [cell for cell in row[:-1] if re.fullmatch(r"[\d./, \[\]-]+", cell)]
    return [number for cell in cells for number in NUMBER.findall(cell)]


def test_what_was_found() -> None:
    assert len(SECTIONS) == 10
    assert len(PAPERS) == 8
    assert len(PUBLISHED) >= 50
    assert len(MEASURED) + len(PLANNED) == len(OURS) >= 18


@pytest.mark.parametrize("title", SECTIONS)
def test_section(title: str) -> None:
    head, _, *rows = table(SECTIONS[title])
    assert head[-1] == "where"
    assert {len(row) for row in rows} == {len(head)}
    assert any(row in OURS for row in rows)
    assert any(row in PUBLISHED for row in rows)
    after = SECTIONS[title].rpartition("|\n")[2].strip()
    assert after.startswith("What differs: ")
    assert after.endswith(".")
    assert NUMBER.search(after), "how much of the data?"


def test_every_system_says_what_could_not_be_checked() -> None:
    _, _, *rows = table(CHECKED)
    systems = [row[0].strip("`") for row in rows]
    generators = {"guan", "kblam", "kglm", "lrlm"}
    others = {*generators, "bertmk", "dkrl", "simkgc", "ultra"}
    assert sorted(systems) == sorted({*METHODS, *MODELS, *others} - {"none", "words"})
    for system, original, *_, unchecked in rows:
        (test,) = re.findall(r"\(\.\./\.\./(tests/[^)]+)\)", original)
        text = (ROOT / test).read_text(encoding="utf-8")
        assert system.strip("`")[:4] in text.lower(), system
        assert len(unchecked.split()) > 3, system


@pytest.mark.parametrize("row", PUBLISHED, ids=name)
def test_published_rows_have_numbers_and_sources(row: list[str]) -> None:
    assert scores(row)
    for source in row[-1].split("; "):
        repository = re.fullmatch(r"README of ([\w-]+/[\w-]+|RoBERTa in fairseq)", source)
        paper, _, location = source.partition(", ")
        assert repository or (paper in PAPERS and location), source
    assert "†" in INTRODUCTION


@pytest.mark.parametrize("row", MEASURED, ids=name)
def test_our_numbers_are_those_of_the_file(row: list[str]) -> None:
    """One line of the file begins with the system and holds all numbers, as they are or / 100."""
    (link,) = LINK.findall(row[-1])
    system = next(cell for cell in row if "**kept**" in cell).removeprefix("**kept**: ")
    lines = (ROOT / "docs/results" / link).read_text(encoding="utf-8").splitlines()
    beginnings = [line for line in lines if line.lower().startswith(f"| {system.lower()} |")]
    numbers_of_lines = [{float(number) for number in NUMBER.findall(line)} for line in beginnings]
    numbers = [float(number) for number in scores(row)]
    assert len(numbers) >= 5
    assert any(all({n, round(n / 100, 4)} & line for n in numbers) for line in numbers_of_lines), (
        beginnings
    )


@pytest.mark.parametrize("row", PLANNED, ids=name)
def test_rows_not_run_say_why_and_have_a_command_and_no_numbers(row: list[str]) -> None:
    assert scores(row) == []
    (cell,) = [cell for cell in row if cell.startswith(NOT_RUN)]
    reason = cell.removeprefix(NOT_RUN + ": ")
    assert reason != cell
    assert len(reason.split()) >= 8
    assert re.fullmatch(r"`[^`]+`(, `[^`]+`)*", row[-1])


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_exist(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    program, *arguments = shlex.split(command)
    flags = {word for word in arguments if word.startswith("-") and word != "-m"}
    if program == "kept":
        group = get_command(app)
        assert isinstance(group, TyperGroup)
        known = {flag for option in group.commands[arguments[0]].params for flag in option.opts}
    else:
        assert (program, arguments[0]) == ("python", "-m")
        source = Path(*arguments[1].split("."), "__main__.py").read_text(encoding="utf-8")
        if arguments[1] == "experiments" or "study_parser" in source:  # what all studies share
            source += Path("experiments", "command.py").read_text(encoding="utf-8")
        known = set(re.findall(r'"(--?[a-z]+)"', source))
    assert flags
    assert flags <= known
    for path in (word for word in arguments if word.endswith(".yaml")):
        assert Path(path).is_file()
    if arguments[0] == "compare":
        task = arguments[arguments.index("--task") + 1]
        assert task.endswith(".yaml") or task in shipped_experiments()


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert targets
    assert [target for target in targets if not (ROOT / "docs/results" / target).exists()] == []


# ---- docs/how-to/linking.md ------------------------------------------------------------------
def test_linking_numbers_are_those_of_the_file() -> None:
    """By row: which line of each benchmark's table, which column, which of its numbers."""
    page = (ROOT / "docs/how-to/linking.md").read_text(encoding="utf-8")
    rows = {row[0]: row[1:] for row in table(page) if len(row) == 6}
    results_page = (ROOT / "experiments/entity_linking/results.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (?=[\w-]+ \(\d+ mentions)", results_page, flags=re.MULTILINE)[1:]
    assert len(parts) == 5
    columns = {
        "gold among 30 candidates": ("trained", 2),
        "accuracy on gold spans, trained": ("trained", 3),
        "… names and prior alone": ("names + prior", 3),
        "… a lower-cased dictionary with counts": ("lower-cased dictionary", 3),
        "F1 end to end, trained": ("trained", 5),
        "… mix": ("mix", 5),
    }
    for name, (linker, column) in columns.items():
        for cell, part in zip(rows[name], parts, strict=True):
            (line,) = [row for row in table(part.partition("\n## ")[0]) if row[0] == linker]
            number = NUMBER.search(line[column])
            assert (cell == "–") == (number is None), (name, part[:20])
            assert cell == "–" or float(cell) == float(number[0]), (name, part[:20])  # type: ignore[index]


def test_what_is_better_than_none_says_what_continued_pretraining_cost_none() -> None:
    """The baseline of wiki80 was pre-trained on texts; the host that read nothing stands higher."""
    folder = ROOT / "experiments/relation_extraction"

    def none_of(name: str) -> str:
        page = (folder / f"{name}.results.md").read_text(encoding="utf-8")
        return re.findall(r"^\| none \| off \| 0(\.\d+) ", page, re.MULTILINE)[0]

    after, before = none_of("wiki80"), none_of("wiki80-types")
    assert (after, before) == (".420", ".440")
    text = (folder / "README.md").read_text(encoding="utf-8").split("Open Entity")[0]
    (claim,) = [part for part in text.split("\n\n")
                if re.search(r"(are|be)\s+better\s+than\s+none", part)]  # fmt: skip
    assert {after, before} <= set(re.findall(r"\.\d{3}", claim))
    assert f"| none, no continued pre-training | | {before} | |" in text
    rows = (ROOT / "docs/results/evidence.md").read_text(encoding="utf-8").splitlines()
    (row,) = [row for row in rows if row.startswith("| Wiki80, facts of Wikidata")]
    assert {after, before} <= set(re.findall(r"\.\d{3}", row))
    notes = (folder / "wiki80.results.md").read_text(encoding="utf-8").split("## Published")[1]
    assert f"0{before}" in notes
