"""The README's Python runs, its links lead somewhere, its commands exist."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kept.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = sorted(set(re.findall(r"`kept ((?:kg |kgc )?[a-z]+) ", README)))


@pytest.mark.minilm
@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, "README.md", "exec"), {})
    assert "WordKnowledgeGraph(" in capsys.readouterr().out


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(targets) >= 3
    assert [name for name in targets if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_exist(command: str) -> None:
    result = CliRunner().invoke(app, [*command.split(), "--help"])
    assert result.exit_code == 0, result.output


def test_enough_was_found() -> None:
    assert len(BLOCKS) == 1
    assert len(COMMANDS) >= 7
