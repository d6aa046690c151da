"""What `make smoke` finds in a page: commands, files, Python blocks and the output they show."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[1] / ".ci" / "smoke"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the scripts are not part of a wheel")
PAGE = """\
`triples.tsv`:

```
Ada\tworks as\tbaker
```

```python
print(1 + 1)
```

```text
2
```

```
kept kg build triples.tsv -o kg/
kept link "Ada called." --kg kg/   # the links
```

    kept fit labelled.csv --kg kg/ -o runs/mine

| you have | you type |
|---|---|
| a graph | `kept kg info kg/` |
"""


def loaded(name: str) -> ModuleType:
    """The module of that name among the scripts."""
    spec = spec_from_file_location(f"smoke_{name.strip('_')}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    path = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    return loaded("pages")


@pytest.fixture(scope="module")
def run(pages: ModuleType) -> Iterator[ModuleType]:
    module = loaded("__main__")
    sys.modules["pages"] = pages  # as in the folder of the script
    yield module
    del sys.modules["pages"]


def test_commands_before_and_after_other_blocks_are_there(pages: ModuleType) -> None:
    seen: set[str] = set()
    lines = [each.line for each in pages.commands(pages.Page("README.md", PAGE), seen)]
    assert lines == [
        "kept kg build triples.tsv -o kg/",
        'kept link "Ada called." --kg kg/',
        "kept fit labelled.csv --kg kg/ -o runs/mine",
        "kept kg info kg/",
    ]
    assert list(pages.commands(pages.Page("other.md", PAGE), seen)) == [], "each once"


def test_a_block_that_a_file_introduces_is_that_file(pages: ModuleType) -> None:
    page = pages.Page("README.md", PAGE)
    assert page.files == {"triples.tsv": "Ada\tworks as\tbaker\n"}
    assert page.is_private
    many = "`g.json`:\n\n```json\n{}\n```\n\n```\nkept kg build g.json --labels l.tsv -o kg/\n```\n"
    assert pages.Page("other.md", many).is_private, "a graph of its own, whatever the format"
    commands = pages.Page("other.md", "Look at `kg.tsv`:\n\n```\nkept kg info kg/\n```\n")
    assert commands.files == {}, "commands are no file"


def test_python_comes_with_the_output_below_it(pages: ModuleType) -> None:
    assert pages.Page("README.md", PAGE).programs == [("print(1 + 1)\n", "2\n")]
    alone = pages.Page("README.md", "```python\n1\n```\n\nwords\n\n```text\n2\n```\n")
    assert alone.programs == [("1\n", "")]


@pytest.mark.parametrize(
    ("program", "output"),
    [
        ("print('a')\nprint('b')\n", "a\nb\n"),
        ("x = 2\nx + 1  # → 3\n", ""),
        ("print('a  b')  # → a b\n", ""),
        ("print(1.23456)  # → 1.2…\n", ""),
        ("for i in range(2):\n    print(i)\n# → 0\n# → 1\n", ""),
        ("[1, 2]\n", ""),
    ],
)
def test_output_as_shown(run: ModuleType, program: str, output: str) -> None:
    run.run_python([(program, output)])


@pytest.mark.parametrize(
    ("program", "output"),
    [
        ("print('a')\n", "b\n"),
        ("2 + 1  # → 4\n", ""),
        ("x = 1  # → 1\n", ""),  # an assignment shows nothing
        ("print(1)\n", "1\n2\n"),
        ("print('a.c')\n", "abc\n"),
        ("for i in range(2):\n    print(i)\n# → 0\n", ""),
    ],
)
def test_other_output_than_shown_is_an_error(run: ModuleType, program: str, output: str) -> None:
    with pytest.raises(AssertionError, match="the page shows"):
        run.run_python([(program, output)])


def test_a_page_s_blocks_share_their_names(run: ModuleType) -> None:
    run.run_python([("x = 1\n", ""), ("print(x)\n", "1\n")])


TUTORIALS = sorted((FOLDER.parents[1] / "docs" / "tutorials").glob("*.md"))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_shows_the_output_of_every_command(pages: ModuleType, path: Path) -> None:
    page = pages.Page(path.name, path.read_text(encoding="utf-8"), is_tutorial=True)
    commands = list(pages.commands(page, set()))
    assert commands
    silent = [each.line for each in commands if not each.shown and not each.reason_not_compared]
    assert silent == []
    assert all(output for program, output in page.programs if "print(" in program)


def test_durations_sizes_and_paths_are_masked_and_other_numbers_are_not(
    pages: ModuleType, run: ModuleType
) -> None:
    assert pages.masked("5 epochs, 1.5 GB, 12 min") == "5 epochs, # GB, # min"
    assert pages.masked("a/b.tsv, /tmp/x/b.tsv, http://a/b") == "a/b.tsv, /#, http://a/b"
    run.require_same("done in 3 s (0.91…)", "done in 14.2 s (0.9132)")
    with pytest.raises(AssertionError, match="3 epochs"):
        run.require_same("3 epochs in 3 s", "4 epochs in 3 s")


def test_numbers_below_about_may_differ_a_little(pages: ModuleType, run: ModuleType) -> None:
    output = "```text\nMRR 0.56 of …, 3\n```\n"
    text = f"```\nkept kgc eval world -m scorer/\n```\n\n<!-- about -->\n{output}"
    (command,) = pages.commands(pages.Page("tutorial.md", text, is_tutorial=True), set())
    run.require_same(command.shown, "MRR 0.52 of 870, 3\n")
    for other in ("MRR 0.71 of 870, 3", "MRR 0.56 of 870, 4"):
        with pytest.raises(AssertionError, match="the page shows"):
            run.require_same(command.shown, other)
