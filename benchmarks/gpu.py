"""What a GPU does with kept, part by part, each with its own limit of time.

    python -m benchmarks.gpu [--minutes 4] [--only step pretrain ...] [-o lines.jsonl]
    python -m benchmarks.gpu --small           # all of it on a processor, at a size for a test

Each part prints JSON lines as it goes and one at its end (`"part"`), also where it fails or its
time is up; the others run all the same. Without a GPU it says so and ends, unless `--small` is
given. A part runs in a process of its own, forked before anything has started the GPU. Hosts are
random and have the shape of MiniLM or BERT-base: nothing is downloaded. Texts and facts are the
atlas's.

step: a training step of K-BERT, CoLAKE and ERNIE in float32, TF32 and bfloat16, its share of the
rate of a large matrix product, and how often it waits for the GPU.
pretrain: `kept pretrain` with 0, 4 and 16 workers, texts a second and the share of time waited.
finetune: `kept finetune` on the GPU; its model answers there as on the processor.
ranking: filtered ranking at CoDEx-M's size against plain torch, with equal ranks.
kgc: an epoch of training with negatives against a plain torch loop.
attention: eager, SDPA, flex and varlen. table: entity vectors on the GPU and in host memory.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

PARTS = {
    "step": 45.0, "kgc": 10.0, "ranking": 18.0, "table": 10.0, "pretrain": 60.0, "finetune": 45.0,
    "attention": 50.0,
}  # fmt: skip
"""The parts in the order of their worth, and the most seconds that each may take."""


def write(line: dict[str, Any], out: Path | None) -> None:
    """Print a line, and append it to the file where there is one."""
    text = json.dumps(line)
    print(text, flush=True)
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def run_part(name: str, seconds: float, small: bool, out: Path | None) -> dict[str, Any]:
    """Run a part in a process of its own; return the line that says how it ended."""
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os._exit(_in_child(name, seconds, small, out))
    ended = _waited(child, start + seconds)
    printed = importlib.import_module("benchmarks.on_gpu.common").printed_by(child)
    if ended is None:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        how = "its time was up"
        if printed.exists():
            print(printed.read_text("utf-8", "replace")[-6000:], file=sys.stderr, flush=True)
    else:
        how = "done" if ended == 0 else f"failed ({ended})"
    printed.unlink(missing_ok=True)
    return {"part": name, "ended": how, "seconds": round(time.monotonic() - start, 1)}


def _waited(child: int, until: float) -> int | None:
    """The exit code of a child, or None where it runs still at the time `until`."""
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    return None


def _in_child(name: str, seconds: float, small: bool, out: Path | None) -> int:
    try:
        from benchmarks.on_gpu.common import Trial

        def line(**values: Any) -> None:
            write({"work": name, **values}, out)

        trial = Trial(small=small, seconds=seconds, line=line)
        importlib.import_module(f"benchmarks.on_gpu.{name}").run(trial)
    except BaseException as error:  # noqa: BLE001 the part ends here whatever it was
        last = traceback.format_exc().strip().splitlines()[-12:]
        write({"work": name, "error": f"{type(error).__name__}: {error}"[:2000], "at": last}, out)
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _look(out: Path | None) -> int:
    """In a child: say which GPU there is; 3 where there is none."""
    import torch

    if not torch.cuda.is_available():
        return 3
    properties = torch.cuda.get_device_properties(0)
    write(
        {
            "work": "gpu", "found": properties.name, "torch": torch.__version__,
            "memory_gib": round(properties.total_memory / 2**30), "cores": os.cpu_count(),
        },
        out,
    )  # fmt: skip
    return 0


def find_gpu(small: bool, out: Path | None) -> bool:
    """Whether there is a GPU, or none is needed; a line says which."""
    if small:
        write({"work": "gpu", "found": "CPU", "small": True, "cores": os.cpu_count()}, out)
        return True
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = _look(out)
        finally:
            os._exit(code)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended:
        message = "there is no GPU: nothing was measured"
        write({"work": "gpu", "found": None, "said": message}, out)
    return ended == 0


def main() -> None:
    """Run the parts that fit into the minutes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=8.0, help="for all parts together")
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--small", action="store_true", help="on a processor, sizes for a test")
    parser.add_argument("-o", "--out", type=Path, help="append the lines to this file too")
    options = parser.parse_args()
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # the other check forbids forked processes
    if options.small:  # several threads of a busy processor wait for each other
        os.environ["OMP_NUM_THREADS"] = "1"
    if not find_gpu(options.small, options.out):
        return
    importlib.import_module("benchmarks.on_gpu.common")  # once, for all the children
    until = time.monotonic() + 60 * options.minutes
    scale = max(1.0, 60 * options.minutes / sum(PARTS.values()))
    for name, most in PARTS.items():
        left = until - time.monotonic()
        if name not in options.only:
            continue
        if left < 5:
            write({"part": name, "ended": "no time was left", "seconds": 0.0}, options.out)
            continue
        write(run_part(name, min(most * scale, left), options.small, options.out), options.out)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # where it is run as a file
    main()
