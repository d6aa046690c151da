"""Gold annotations that several explorers write into one file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from kept.explorer.corrections import record

N_TEXTS = 40
WRITER = """
import sys
from pathlib import Path
from kept.explorer.corrections import record
path, name, n = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for i in range(n):
    record(path, f"{name} {i} lives in Paris.", {(0, len(name)): f"Q{i}"})
"""


def test_two_explorers_lose_no_line_of_each_other(tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    command = [sys.executable, "-c", WRITER, str(gold)]
    writers = [subprocess.Popen([*command, name, str(N_TEXTS)]) for name in ("Ann", "Bob")]
    assert [writer.wait(timeout=300) for writer in writers] == [0, 0]
    texts = [json.loads(line)["text"] for line in gold.read_text(encoding="utf-8").splitlines()]
    wanted = [f"{name} {i} lives in Paris." for name in ("Ann", "Bob") for i in range(N_TEXTS)]
    assert sorted(texts) == sorted(wanted)
    assert [path.name for path in tmp_path.iterdir()] == ["gold.jsonl"]


def test_a_text_is_replaced_and_taken_out(tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    assert record(gold, "Ann lives.", {(0, 3): "Q1"}) == (1, 1)
    assert record(gold, "Bob lives.", {(0, 3): "Q2"}) == (2, 2)
    assert record(gold, "Ann lives.", {(0, 3): "Q3"}) == (2, 2)
    lines = [json.loads(line) for line in gold.read_text(encoding="utf-8").splitlines()]
    links = {line["text"]: line["mentions"] for line in lines}
    assert links["Ann lives."][0]["entity"] == "Q3"
    assert record(gold, "Ann lives.", {}) == (1, 1)
