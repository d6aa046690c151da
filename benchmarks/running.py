"""Runs scripts as processes of their own, and keeps what each printed with what it took."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import IO, Any

ROOT = Path(__file__).parents[1]
MEASURED = ("kept", "kg_loaders", "entity_linking")
"""The packages whose code is part of what was measured."""
ERROR_LINES = 15


@dataclass(frozen=True)
class Job:
    """A script, by its path from the root, with flags; `name` is its file's."""

    script: str
    flags: str = ""
    large: bool = False
    root: Path = field(default=ROOT, repr=False)

    @property
    def name(self) -> str:
        path = Path(self.script)
        return f"{path.parent.name}-{path.stem}{'-large' if self.large else ''}"

    @property
    def command(self) -> str:
        return " ".join(["python", self.script, *([self.flags] if self.flags else [])])


def code_of(job: Job) -> str:
    """A hash of the job's flags, of whether it has data, and of all code that it can run."""
    settings = [job.flags, str("KEPT_DATA" in os.environ)]
    digest = hashlib.sha256("\n".join(settings).encode())
    files = {file for top in MEASURED for file in (job.root / top).rglob("*.py")}
    files |= set(_imported(job.root / job.script, job.root))
    for file in sorted(files):
        digest.update(f"\n{file.relative_to(job.root)}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _imported(script: Path, root: Path) -> list[Path]:
    """The script, and what it imports from beside it and from the root, with what that imports."""
    files, waiting = [script], [script]
    while waiting:
        file = waiting.pop()
        for name in _names(file):
            path = Path(*name.split(".")).with_suffix(".py")
            for candidate in (file.parent / path, root / path, root / "tests/kept/graphs" / path):
                if path.parts[0] not in MEASURED and candidate.is_file() and candidate not in files:
                    files.append(candidate)
                    waiting.append(candidate)
    return files


def _names(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def commit(root: Path, folder: Path) -> dict[str, Any]:
    """The commit, and whether files differ from it beside the results themselves."""
    inside = folder.resolve().is_relative_to(root.resolve())
    but = [f":!{folder.resolve().relative_to(root.resolve())}"] if inside else []
    outputs = [
        subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
        for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", ".", *but])
    ]
    if any(done.returncode for done in outputs):
        return {"commit": None, "changed": None}
    return {"commit": outputs[0].stdout.strip()[:12], "changed": bool(outputs[1].stdout.strip())}


def results(folder: Path) -> dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]:
    """By name: what the run took, and the JSON lines it printed."""
    return {path.stem: read(path) for path in sorted(folder.glob("*.jsonl"))}


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    first, *lines = map(json.loads, path.read_text("utf-8").splitlines())
    return first, lines


def is_there(job: Job, folder: Path, code: str) -> bool:
    """Whether the job came to its end with this very code."""
    path = folder / f"{job.name}.jsonl"
    if not path.is_file():
        return False
    run, _ = read(path)
    return bool(run["code"] == code and run["exit_code"] == 0)


def run(job: Job, folder: Path, limit: float) -> dict[str, Any]:
    """Run the job, write `NAME.jsonl` and return its first line, which says what the run took."""
    started = {
        "script": job.script, "flags": job.flags, "code": code_of(job),
        **commit(job.root, folder), "begun": time.strftime("%Y-%m-%d %H:%M"),
        "load_before": round(os.getloadavg()[0], 2),
    }  # fmt: skip
    command = [sys.executable, str(job.root / job.script), *shlex.split(job.flags)]
    wall, processor = time.perf_counter(), _of_children()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
        exit_code, lines = _watched(command, job.root, stderr, limit)
        stderr.seek(0)
        lines_of_error = [line.rstrip() for line in stderr.read().splitlines() if line.strip()]
    first = started | {
        "exit_code": exit_code, "seconds": round(time.perf_counter() - wall, 1),
        "processor_s": round(_of_children() - processor, 2),
        "load_after": round(os.getloadavg()[0], 2),
        **({"error": lines_of_error[-ERROR_LINES:]} if exit_code else {}),
    }  # fmt: skip
    text = "\n".join([json.dumps(each) for each in (first, *lines)]) + "\n"
    (folder / f"{job.name}.jsonl").write_text(text, encoding="utf-8")
    return first


def _of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _watched(
    command: list[str], root: Path, stderr: IO[str], limit: float
) -> tuple[int | str, list[dict[str, Any]]]:
    """Its exit code, or that it was ended at the limit; and its JSON lines, shown as they come."""
    process = subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=stderr, text=True,
        env=_environment(root), start_new_session=True,
    )  # fmt: skip
    over = Timer(limit, lambda: os.killpg(process.pid, signal.SIGKILL))
    start, lines = time.perf_counter(), []
    over.start()
    try:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                print(f"    {line}", end="", flush=True)
                if line.startswith("{"):
                    lines.append(json.loads(line))
        code = process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    finally:
        over.cancel()
    ended = code == -signal.SIGKILL and time.perf_counter() - start >= limit
    return f"ended after {limit:.0f} s" if ended else code, lines


def _environment(root: Path) -> Mapping[str, str]:
    paths = [str(root), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }  # fmt: skip
