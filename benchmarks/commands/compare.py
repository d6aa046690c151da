"""A whole `kept compare --task wiki80`: the seconds of one run, with and without AVX-512.

    KEPT_DATA=FOLDER python benchmarks/commands/compare.py [--limit 64]

The command trains the host alone for one seed, evaluates it and writes its tables: a first stage
over texts, fine-tuning, 64 questions. It is run as the processor is and, where that has AVX-512,
again by libraries that may only use AVX2 (for torch, oneDNN and MKL). Processor seconds of the
process, one thread, and by the clock; `precision` is the one that the experiment measured and took.
`floor_s` is an interpreter that imports torch and transformers. JSON lines.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.machine import described
from benchmarks.measuring import processor_seconds_of, write_line

AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}  # fmt: skip


def run(instructions: str, settings: dict[str, str], limit: int, floor: float) -> None:
    """Run the command once and print its row."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "kept", "compare", "--task", "wiki80", "--methods", "none",
            "--controls", "", "--seeds", "1", "--limit", str(limit), "--threads", "1",
            "-o", f"{folder}/runs",
        ]  # fmt: skip
        wall, before = time.perf_counter(), os.times()
        done = subprocess.run(
            command, env={**os.environ, "KEPT_CACHE": f"{folder}/cache", **settings},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        after = os.times()
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    precision = re.search(r"precision: (\w+)", done.stdout + done.stderr)
    seconds = after.children_user + after.children_system
    write_line(
        row="kept compare --task wiki80", instructions=instructions, limit=limit,
        kept_s=round(seconds - before.children_user - before.children_system, 1),
        clock_s=round(time.perf_counter() - wall, 1), floor_s=round(floor, 1),
        precision=precision[1] if precision else None,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=64, help="examples of each file")
    options = parser.parse_args()
    if "KEPT_DATA" not in os.environ:
        write_line(row="kept compare --task wiki80", skipped="KEPT_DATA names no folder of data")
        return
    floor = processor_seconds_of([sys.executable, "-c", "import torch, transformers.models.bert"])
    has_avx512 = "avx512f" in described()["flags"]
    run("AVX-512" if has_avx512 else "AVX2", {}, options.limit, floor)
    if has_avx512:
        run("AVX2", AVX2, options.limit, floor)


if __name__ == "__main__":
    main()
