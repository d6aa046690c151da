"""The Python of docs/reference/methods/kadapter.md runs, and says what the page says."""

import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "docs/reference/methods"
PAGE = (FOLDER / "kadapter.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.minilm
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(BLOCKS) == 3
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/reference/methods/kadapter.md", "exec"), names)
    assert names["trained"] == {"wordnet"}
    assert names["other"].names == ["factual", "linguistic", "wordnet"]
    adapters = names["other"].config.adapters
    assert adapters["wordnet"]["graph_hash"] == names["synsets"].content_hash
    assert adapters["linguistic"]["graph_hash"] == ""
