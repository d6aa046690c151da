"""docs/reference/quirks.md and CONTRIBUTING.md say what the code says: options, files, tables."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import entity_linking
import kept
from kept.heads.model import HEADS
from kept.methods import BASELINE, METHODS, title
from kept.objectives.model import OBJECTIVES

ROOT = Path(__file__).parent.parent
PACKAGES = [Path(str(package.__file__)).parent for package in (kept, entity_linking)]
REFERENCE = ROOT / "tests/reference"
PAPERS = {title(name): name for name in METHODS if name != BASELINE}


def rows(text: str) -> list[list[str]]:
    """The cells of every table's rows, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rules = [i for i, row in enumerate(cells) if set("".join(row)) == {"-"}]
    return [row for i, row in enumerate(cells) if i not in rules and i + 1 not in rules]


# ---- quirks ---------------------------------------------------------------------------------
QUIRKS = (ROOT / "docs/reference/quirks.md").read_text(encoding="utf-8")
OPTIONS = sorted({span for row in rows(QUIRKS) for span in re.findall(r"`([^`]+)`", row[1])})


def defined() -> dict[str, list[tuple[set[str], str]]]:
    """Parameters (or fields) and source of all that is defined, by `name` and `module.name`."""
    sources: dict[str, list[tuple[set[str], str]]] = {}
    for package in (*PACKAGES, REFERENCE):
        for path in sorted(package.rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            module = path.relative_to(package.parent).with_suffix("").parts
            for node in ast.parse(source).body:
                for name, fields in definitions(node):
                    parts = [*module, name]
                    for i in range(len(parts)):
                        sources.setdefault(".".join(parts[i:]), []).append((fields, source))
    return sources


def definitions(node: ast.stmt) -> Iterator[tuple[str, set[str]]]:
    if isinstance(node, ast.Assign):
        names = (name for target in node.targets for name in ast.walk(target))
        yield from ((name.id, set()) for name in names if isinstance(name, ast.Name))
    elif isinstance(node, ast.FunctionDef):
        yield node.name, {a.arg for a in [*node.args.args, *node.args.kwonlyargs]}
    elif isinstance(node, ast.ClassDef):
        fields = [part.target for part in node.body if isinstance(part, ast.AnnAssign)]
        known = {field.id for field in fields if isinstance(field, ast.Name)}
        for part in node.body:
            if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                known |= next(definitions(part))[1]
        yield node.name, known


DEFINED = defined()


@pytest.mark.parametrize("option", OPTIONS)
def test_options_exist(option: str) -> None:
    call = ast.parse(option, mode="eval").body
    name = ast.unparse(call.func) if isinstance(call, ast.Call) else option
    keywords = call.keywords if isinstance(call, ast.Call) else []
    tables = {**OBJECTIVES, **HEADS}
    if name in tables:
        kind = tables[name].options
        known = {field.name for field in dataclasses.fields(kind)}
        source = inspect.getsource(sys.modules[kind.__module__])
    else:
        assert len(DEFINED.get(name, ())) == 1, f"{name} is defined {len(DEFINED.get(name, ()))}x"
        known, source = DEFINED[name][0]
    for keyword in keywords:
        assert keyword.arg in known, (name, sorted(known))
        for value in ast.walk(keyword.value):
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                assert f'"{value.value}"' in source, value.value


def test_every_method_has_its_quirks() -> None:
    published = [title(name) for name, line in METHODS.items() if line.is_published]
    assert re.findall(r"^## (.*)$", QUIRKS, re.MULTILINE) == published
    assert set(PAPERS.values()) | {"none"} == set(METHODS)
    assert all(len(row) == 3 and all(row) for row in rows(QUIRKS))
    assert len(rows(QUIRKS)) > 60
    assert len(OPTIONS) > 40


@pytest.mark.parametrize("name", METHODS)
def test_objectives_that_a_method_leaves_out_are_told(name: str) -> None:
    """One row for each objective of its paper that its line does not have, and no other."""
    section = QUIRKS.partition(f"## {title(name)}\n")[2].partition("\n## ")[0]
    names = [re.fullmatch(r"the objective `(\w+)`", row[1]) for row in rows(section)]
    assert [match[1] for match in names if match] == list(METHODS[name].published_with)
    assert not set(METHODS[name].published_with) & set(METHODS[name].objectives)


def test_every_method_has_its_controls() -> None:
    page = (ROOT / "docs/explanations/controls.md").read_text(encoding="utf-8")
    section = page.partition("## Controls method by method\n")[2].partition("\n## ")[0]
    assert sorted(row[0].strip("`") for row in rows(section)) == sorted(PAPERS.values())


# ---- recipes --------------------------------------------------------------------------------
def named_paths(text: str) -> set[str]:
    spans = re.findall(r"`([^`\n]+)`", text)
    return {s for s in spans if re.fullmatch(r"[\w.-]*(/[\w.-]*)*(\.py|\.md|/)", s)} - {"/"}


def test_contributing_names_what_is_there() -> None:
    page = ROOT / "CONTRIBUTING.md"
    if not page.exists():
        pytest.skip("CONTRIBUTING.md is no part of an installed package")
    parts = ROOT / "docs/how-to/adding-parts.md"
    text = page.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60, "CONTRIBUTING.md is one screen"
    text = re.sub(r"```.*?```", "", text + parts.read_text(encoding="utf-8"), flags=re.DOTALL)
    spans = set(re.findall(r"`([^`]+)`", text))
    paths = {path for path in named_paths(text) if "NAME" not in path} - {"errors.py"}
    assert len(paths) > 12
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []
    steps = named_paths((ROOT / "docs/how-to/adding-a-method.md").read_text(encoding="utf-8"))
    assert len(steps) > 20
    assert sorted(path for path in steps if not (ROOT / path).exists()) == []
    tables = {s for s in spans if s.isupper() and len(s) > 4}
    assert {"METHODS", "ENCODERS", "OBJECTIVES", "HEADS", "CONVERTERS"} <= tables
    for name in tables:
        files = [p for path in paths for p in [ROOT / path] if p.suffix == ".py"]
        assert any(re.search(rf"^{name}\b", p.read_text(), re.MULTILINE) for p in files), name
