"""`PYTHON -P .ci/smoke CHECKOUT FOLDER`: kept as PYTHON has it installed, in an empty folder.

Runs every command of the README and the pages that runs without a network, at a tiny budget, reads
one file per reader and imports every module with nothing but the declared dependencies. Each runs
in a process forked from this one, which has imported kept. Ends with 1 if something fails.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != HERE]  # of this script
SECONDS = 120


def forked(work: Callable[[], None], log: Path) -> tuple[int, float]:
    """The exit code of `work` in a process of its own, and its seconds."""
    began = time.monotonic()
    child = os.fork()
    if not child:
        code = 70
        try:
            with log.open("w") as sink:
                os.dup2(sink.fileno(), 1)
                os.dup2(sink.fileno(), 2)
                sys.stdout, sys.stderr = (
                    io.TextIOWrapper(io.FileIO(1, "w")),
                    io.TextIOWrapper(io.FileIO(2, "w"), write_through=True),
                )
                signal.alarm(SECONDS)
                work()
                code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(bool(end.code))
        except BaseException:  # noqa: BLE001 - shown in the log
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), time.monotonic() - began


def run_command(words: list[str]) -> None:
    """As the script `kept` does."""
    from kept.cli import main

    sys.argv = ["kept", *words]
    main()


def run_pages(checkout: Path) -> list[str]:
    """Every command in the current folder; those that fail."""
    import shutil

    import files
    import pages

    files.write(Path())
    failed, n_run, left = [], 0, []
    for command in pages.commands(checkout):
        reason = command.reason or (command.missing and f"{command.missing} is not here")
        if reason is not None:
            left.append((command, reason))
            continue
        words = command.words
        for option, value in pairwise(words):
            if option in ("-o", "--output") and Path(value).exists() and value not in KEPT:
                shutil.rmtree(value) if Path(value).is_dir() else Path(value).unlink()
        log = Path("log.txt")
        code, seconds = forked(lambda words=words: run_command(words), log)
        if code == 1 and command.line.removeprefix("kept ").startswith(pages.MAY_FIND):
            code = 0
        n_run += 1
        print(
            f"  {'ok  ' if code == 0 else 'FAIL'} {seconds:5.1f} s  {command.page}: {command.line}"
        )
        if code:
            failed.append(command.line)
            print("       " + "\n       ".join(log.read_text().strip().splitlines()[-4:]))
    print(f"commands: {n_run} run, {len(failed)} failed, {len(left)} not run:")
    for command, reason in left:
        print(f"  -    {command.page}: {command.line}: {reason}")
    return failed


KEPT = ("kg", "kg/", "atlas", "atlas/")
READ = """
import sys, tempfile
from pathlib import Path
from random import Random
from tests.fuzz.openers import OPENERS
from tests.fuzz.targets import ALLOWED, CORPUS, READERS
from tests.fuzz.targets import kept_corpus

failed = []
for name, target in READERS.items():
    n = 0
    corpus = CORPUS / name.removeprefix("graph.")
    seeds = kept_corpus(corpus.name) if corpus.is_dir() else target.seeds()
    for number, files in enumerate(seeds):
        with tempfile.TemporaryDirectory() as folder:
            for file, data in files.items():
                (Path(folder) / file).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / file).write_bytes(data)
            try:
                target.run(Path(folder), Random(0))
                n += 1
            except ALLOWED as error:
                print(f"  refused {name} {sorted(files)}: {str(error)[:160]}")
    if not n:
        failed.append(name)
print(f"readers: {len(READERS)} read, {len(failed)} refused every file of theirs: {failed}")
sys.exit(bool(failed))
"""


def run_program(program: str, checkout: Path, *, with_tests: bool = False) -> bool:
    """Whether a Python of this environment runs `program`; its output is shown."""
    environment = dict(os.environ)
    if with_tests:
        environment["PYTHONPATH"] = str(checkout / "tests" / "importable")
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=False)
    return done.returncode == 0


DECLARED = """
import importlib, importlib.metadata as metadata, pkgutil, re, sys

def closure(name, seen):
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name in seen:
        return
    try:
        needed = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return
    seen.add(name)
    for line in needed:
        if "extra ==" not in line.replace("'", '"').replace('"', ""):
            closure(re.match(r"[A-Za-z0-9._-]+", line).group(), seen)

names = set()
closure("kept", names)
theirs = {top: {re.sub(r"[-_.]+", "-", d).lower() for d in found}
          for top, found in metadata.packages_distributions().items()}
undeclared = {top for top, found in theirs.items() if not found & names}
ours = {"kept", "kg_loaders", "entity_linking"}
sys.modules.update(dict.fromkeys(undeclared - set(sys.modules) - ours))
faults, n = {}, 0
for top in ("kg_loaders", "entity_linking", "kept"):
    for found in pkgutil.walk_packages(importlib.import_module(top).__path__, top + "."):
        if found.name.endswith("__main__"):
            continue
        n += 1
        try:
            importlib.import_module(found.name)
        except Exception as error:
            extra = "pip install 'kept[" in str(error) or found.name.startswith("kept.serve.")
            if not extra:  # the command `kept serve` names its extra before it imports these
                faults[found.name] = f"{type(error).__name__}: {error}"
for name, fault in faults.items():
    print(f"  {name}: {fault}")
print(f"modules: {n} imported with the declared dependencies alone, {len(faults)} failed")
sys.exit(bool(faults))
"""


def main() -> int:
    """Everything; 1 if something failed."""
    checkout, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    folder.mkdir(parents=True)
    os.chdir(folder)
    os.environ.pop("PYTHONPATH", None)
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    import kept

    leads = [entry for entry in sys.path if Path(entry or ".").resolve() == checkout]
    print(f"kept {kept.__file__}; the checkout on sys.path: {leads or 'no'}")
    import transformers  # noqa: F401

    import kept.cli  # what every process here is forked with

    sys.path.append(str(HERE))
    failed = bool(leads)
    failed |= not run_program(DECLARED, checkout)
    failed |= not run_program(READ, checkout, with_tests=True)
    return int(bool(run_pages(checkout)) or failed)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    sys.exit(main())
