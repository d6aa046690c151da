"""Gold annotations that several explorers write into one file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from kept.apps.explorer.corrections import record

N_TEXTS = 40
WRITER = """
import sys
from pathlib import Path
from kept.apps.explorer.corrections import record
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


def test_a_text_is_taken_out_and_the_lines_of_others_stay_byte_for_byte(tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    others = [
        b'{"text": "A",  "mentions": [{"start": 0, "end": 1, "entity": "Q1"}], "note": "mine"}',
        b'{"mentions": [], "text": "B"}',
    ]
    record(gold, "Ann lives.", {(0, 3): "Q1", (4, 9): None})
    ours = gold.read_bytes()
    gold.write_bytes(others[0] + b"\n" + ours + others[1] + b"\n")
    assert record(gold, "Ann lives.", {}) == (2, 1)
    assert gold.read_bytes() == b"".join(line + b"\n" for line in others)
    assert record(gold, "nobody's text", {}) == (2, 1), "there was no line to take out"
    assert record(gold, "A", {}) == (1, 0)
    assert record(gold, "B", {}) == (0, 0)
    assert gold.read_bytes() == b""
