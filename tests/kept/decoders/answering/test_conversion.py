"""MiniLM as CTranslate2 reads it, compared with what CTranslate2's own converter writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kept.decoders.answering import conversion, encoder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
pytest.importorskip("ctranslate2", reason="the extra ask is not installed")

THEIRS = (
    "import sys; from ctranslate2.converters import TransformersConverter; "
    "TransformersConverter(sys.argv[1]).convert(sys.argv[2], quantization=sys.argv[3], force=True)"
)
OURS = (
    "import sys; from pathlib import Path; from kept.decoders.answering.conversion import convert; "
    "convert(*map(Path, sys.argv[1:])); status = Path('/proc/self/status').read_text(); "
    "print(status.split('VmHWM:')[1].split()[0], 'transformers' in sys.modules)"
)
MOST_KB = 300_000
"""Of memory; CTranslate2's converter takes 540,000."""


def _run(code: str, *arguments: str | Path) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_same_files_as_by_the_converter_of_ctranslate2(tmp_path: Path) -> None:
    source = encoder._minilm_folder()
    (tmp_path / "ours").mkdir()
    peak_kb, loads_transformers = _run(OURS, source, tmp_path / "ours").split()
    _run(THEIRS, source, tmp_path / "theirs", conversion.QUANTIZATION)
    files = {path.name: path.read_bytes() for path in (tmp_path / "theirs").iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "ours").iterdir()} == files
    assert loads_transformers == "False"
    assert int(peak_kb) < MOST_KB
