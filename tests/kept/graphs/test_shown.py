"""What people see of coverage says *shown*: that a model used it is for the reading controls."""

from __future__ import annotations

import re
from pathlib import Path

from kept.apps.cli.training.guide import FILES
from kept.graphs.coverage import COLUMN, caution, cell, summary
from kept.lab.study.comparison_tables import COVERAGE

ROOT = Path(__file__).parents[3]
STORED = {
    "n": 40,
    "looked_at": 40,
    "read": 2,
    "shares": {"link": 0.5, "fact": 0.1, "both_facts": None, "read": 0.05},
}
READ = re.compile(r"\breads?\b")
CLAIM = re.compile(
    r"reads? anything of\s+the\s+graph|graph\s+(is|was)\s+read\b"
    r"|(nothing|anything)\s+(of\s+the\s+graph\s+)?(is\s+)?read\b"
)


def test_messages_and_columns_say_shown() -> None:
    texts = [summary(STORED), COLUMN, COVERAGE, caution(STORED, "dev"), FILES["coverage.json"]]
    for text in texts:
        assert text is not None
        assert not READ.search(text), text
    assert "shown 5.0%" in summary(STORED)
    assert cell(STORED).endswith(" / 5.0")


def test_pages_say_shown() -> None:
    pages = [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "experiments").rglob("*.md"),
    ]
    pages = [page for page in pages if "decisions" not in page.parts]
    assert len(pages) > 100
    claims = [f"{page}: {hit[0]}" for page in pages for hit in CLAIM.finditer(page.read_text())]
    assert claims == []
