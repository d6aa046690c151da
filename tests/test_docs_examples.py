"""The scripts of docs/examples: short, in their page, and run as a new user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kept.training.tiny_pretraining import write_host

ROOT = Path(__file__).parent.parent
EXAMPLES = {path.name: path for path in sorted((ROOT / "docs" / "examples").glob("*.py"))}
PAGES = [
    (ROOT / "docs" / "how-to" / name).read_text(encoding="utf-8")
    for name in ("integrations.md", "graphrag.md")
]
MOST_LINES = 15
PRINTED = {
    "gliner_mentions.py": "('Paris', 'Paris')",
    "langchain_retriever.py": "The country of Lyon is France.",
    "llamaindex_retriever.py": "The country of Lyon is France.",
    "rag_graphs.py": "output True",
    "sentence_transformers_module.py": "similarities of vectors (2, 384)",
    "transformers_trainer.py": "4 texts, loss 0.",
}
NEEDS_MINILM = [name for name in EXAMPLES if name not in ("gliner_mentions.py", "rag_graphs.py")]


def test_each_has_a_line_here() -> None:
    assert list(EXAMPLES) == list(PRINTED)


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_short_and_in_its_page(name: str) -> None:
    text = EXAMPLES[name].read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    code = text.split('"""\n', 1)[1].strip()
    assert any(f"```python\n{code}\n```" in page for page in PAGES)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.minilm] if name in NEEDS_MINILM else [])
        for name in EXAMPLES
    ],
)
def test_it_runs_in_an_empty_folder(name: str, tmp_path: Path) -> None:
    arguments = []
    if name == "gliner_mentions.py":
        library = pytest.importorskip("gliner", reason="GLiNER is not installed")
        config = {
            "model_name": str(write_host(tmp_path / "host")), "hidden_size": 16, "max_width": 4,
            "max_len": 48, "span_mode": "markerV0",
        }  # fmt: skip
        library.GLiNER.from_config(config).save_pretrained(str(tmp_path / "gliner"))
        arguments = [str(tmp_path / "gliner")]
    folder = tmp_path / "empty"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-I", str(EXAMPLES[name]), *arguments],
        cwd=folder, capture_output=True, text=True, timeout=600,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert PRINTED[name] in done.stdout
