"""The README's picture is made of what the demo writes; the page of journeys names them all."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT, JOURNEYS = ROOT / ".ci" / "decision.py", ROOT / ".ci" / "journeys" / "run.sh"
SVG = "{http://www.w3.org/2000/svg}"
pytestmark = pytest.mark.skipif(
    not SCRIPT.is_file(), reason=".ci/ lies in a checkout; these tests run outside of one"
)


def explained(role: str, other: str) -> dict[str, Any]:
    fact = {"kind": "fact", "what": f"A<b> — works as → {role}", "change": 0.9}
    link = {"kind": "link", "what": "the link", "change": 1.0}
    return {"text": "A<b> & co.", "label": role, "scores": {role: 0.9, other: 0.1},
            "influences": [link, fact]}  # fmt: skip


def test_the_picture_says_what_the_demo_wrote(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    changes = {"edited": {"n": 8, "new": 0.75, "old": 0.125, "before": explained("baker", "smith"),
                          "after": explained("smith", "baker")}}  # fmt: skip
    (tmp_path / "private" / "a.json").write_text(json.dumps({"answers": [], "changes": None}))
    (tmp_path / "private" / "b.json").write_text(json.dumps({"answers": [], "changes": changes}))
    picture = tmp_path / "made.svg"
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path), str(picture)], check=True)
    texts = [each.text or "" for each in ElementTree.parse(picture).iter(f"{SVG}text")]
    assert "“A<b> & co.” What does A<b> work as?" in texts
    assert texts.count("0.90") == texts.count("0.10") == 2
    assert {"A<b> — works as → baker", "A<b> — works as → smith"} <= set(texts)
    assert any("75.0% of the answers follow the graph, 12.5% stay" in text for text in texts)
    (tmp_path / "private" / "b.json").unlink()
    refused = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), str(picture)], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (refused.returncode, "holds no edit" in refused.stderr) == (1, True)


def test_the_committed_picture_shows_a_change() -> None:
    picture = ElementTree.parse(ROOT / "docs" / "decision.svg")
    (description,) = picture.iter(f"{SVG}desc")
    answers = re.findall(r"(?:answer|it) is (\w+)", description.text or "")
    assert len(answers) == 2
    assert answers[0] != answers[1]


def test_the_page_of_journeys_names_them_all() -> None:
    walked = re.findall(r"^journey (\w+) ", JOURNEYS.read_text(encoding="utf-8"), re.MULTILINE)
    page = (ROOT / "docs/results/journeys.md").read_text(encoding="utf-8")
    names = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert names[: len(walked)] == walked
    assert set(names) == set(walked)
    assert len(walked) == 8
