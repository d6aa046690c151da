"""The README's Python prints what it shows, its links are files, its commands exist."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/tutorials").glob("*.md"))]
README = PAGES[0].read_text(encoding="utf-8")
EXAMPLE_BLOCKS = re.compile(r"```python\n(.*?)```\n+```text\n(.*?)```", re.DOTALL)
EXAMPLES = [
    pytest.param(code, output, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, (code, output) in enumerate(
        EXAMPLE_BLOCKS.findall(page.read_text(encoding="utf-8"))
    )
]
COMMANDS = sorted(set(re.findall(r"^kept ((?:kg |kgc )?[a-z]+) ", README, re.MULTILINE)))
MOST_WORDS = 900


@pytest.mark.minilm
@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_python_prints_what_stands_below_it(
    code: str, output: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    pytest.importorskip("ctranslate2", reason="the extra ask is not installed")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == output


def test_every_link_of_the_readme_is_a_file() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(targets) >= 20
    assert [name for name in targets if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_exist(command: str) -> None:
    result = CliRunner().invoke(app, [*command.split(), "--help"])
    assert result.exit_code == 0, result.output


def test_the_readme_is_short_and_shows_python_and_commands() -> None:
    assert len(README.split()) <= MOST_WORDS
    assert len(EXAMPLES) >= 1
    assert {"kg build", "link", "ask", "fit"} <= set(COMMANDS)
