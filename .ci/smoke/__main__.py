"""`PYTHON -P .ci/smoke CHECKOUT FOLDER [--all]`: kept as PYTHON has it, in an empty folder.

Runs the commands and Python blocks of the README and the tutorials (with --all the commands of
every page) that run without a network, at a tiny budget. Compares what they print with what the
page shows below them, if anything (pages.py has the rule). Reads a file per reader and imports
every module with nothing but the declared dependencies. Each command runs in a process forked from
this one, which has imported kept. Ends with 1 if something fails.
"""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pages

HERE = Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != HERE]  # of this script
SECONDS = 300


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
                    io.TextIOWrapper(io.FileIO(1, "w"), line_buffering=True),
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


INSTALLED = "installed"
"""Folder of the package that a page makes; nothing is installed into the environment."""


def install(folder: Path) -> None:
    """Install the package of a page into a folder of its own, as `pip install -e .` would."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run(
        [*command, "--no-build-isolation", "--target", folder / INSTALLED, folder], check=True
    )


def run_command(words: list[str]) -> None:
    """As the script `kept` does; in a new process where the page has a package."""
    if Path(INSTALLED).is_dir():
        environment = os.environ | {"PYTHONPATH": str(Path(INSTALLED).resolve())}
        os.execve(sys.executable, [sys.executable, "-P", "-m", "kept", *words], environment)
    from kept.apps.cli import main

    sys.argv = ["kept", *words]
    main()


def run_pages(checkout: Path, *, all_pages: bool) -> int:
    """Run every command of the pages, and the Python of the README and tutorials; how many fail.

    The README and each tutorial have a folder of their own, the other pages one together.
    """
    import files
    import pages

    seen: set[str] = set()
    done: set[str | None] = set()  # what takes long, and was run
    home, left, uncompared = Path.cwd(), [], []
    counts = {"commands": [0, 0], "outputs": [0, 0], "programs": [0, 0]}
    for page in pages.pages(checkout, all_pages=all_pages):
        is_whole = page.name == "README.md" or page.is_tutorial
        is_apart = is_whole or page.is_private
        folder = home / (page.name.removesuffix(".md") if is_apart else "pages")
        if not folder.exists():
            folder.mkdir()
            files.write(folder, page.files, private=page.is_private)
            if page.is_package:
                install(folder)
        os.chdir(folder)
        if page.programs and page.is_tutorial:  # they write files that its commands read
            code, seconds = forked(lambda page=page: run_python(page.programs), Path("log.txt"))
            show(code, seconds, f"{page.name}: {len(page.programs)} Python blocks")
            counts["programs"][0] += len(page.programs)
            counts["programs"][1] += code != 0
        for command in pages.commands(page, set() if page.is_tutorial else seen):
            reason = command.reason or (command.missing and f"{command.missing} is not here")
            may_skip = not is_whole and not command.shown
            if reason is None and may_skip and command.kind in done:
                reason = f"kept {command.kind} was run above"
            if reason is not None:
                more = "; its output is not compared" if command.shown else ""
                left.append(f"{page.name}: {command.line}: {reason}{more}")
                continue
            if page.is_tutorial and not command.shown:
                why = command.reason_not_compared or "the page does not show its output"
                uncompared.append(f"{page.name}: {command.line}: {why}")
            code = run_one(command)
            done |= {command.kind} - {None}
            counts["commands"][0] += 1
            counts["commands"][1] += code != 0
            if command.shown:
                counts["outputs"][0] += 1
                counts["outputs"][1] += not has_shown(command)
        if page.programs and not is_whole:
            left.append(f"{page.name}: {len(page.programs)} Python blocks: pieces with gaps")
        elif page.programs and not page.is_tutorial:
            code, seconds = forked(lambda page=page: run_python(page.programs), Path("log.txt"))
            show(code, seconds, f"{page.name}: {len(page.programs)} Python blocks")
            counts["programs"][0] += len(page.programs)
            counts["programs"][1] += code != 0
    os.chdir(home)
    for what, (n, n_failed) in counts.items():
        verb = "compared" if what == "outputs" else "run"
        print(f"{what}: {n} {verb}, {n_failed} failed")
    for what, lines in (("not compared in tutorials", uncompared), ("not run", left)):
        print(f"{what}: {len(lines)}")
        for line in lines:
            print(f"  -    {line}")
    return sum(n_failed for _, n_failed in counts.values())


def run_one(command: pages.Command) -> int:
    """The exit code of a command, in the current folder; its output is shown if it fails."""
    import pages

    words = command.words
    for option, value in pairwise(words):
        is_output = option in ("-o", "--output") and Path(value).exists()
        if is_output and (command.page.is_private or value not in KEPT):
            shutil.rmtree(value) if Path(value).is_dir() else Path(value).unlink()
    code, seconds = forked(lambda: run_command(words), Path("log.txt"))
    if code == 1 and command.line.removeprefix("kept ").startswith(pages.MAY_FIND):
        code = 0
    show(code, seconds, f"{command.page.name}: {command.line}")
    return code


def has_shown(command: pages.Command) -> bool:
    """Whether the last command printed what its page shows; the difference is printed."""
    try:
        require_same(command.shown, Path("log.txt").read_text(errors="replace"))
    except AssertionError as error:
        print(f"  FAIL          {command.page.name}: the output of {command.line}")
        print("       " + str(error).replace("\n", "\n       "))
        return False
    return True


def show(code: int, seconds: float, what: str) -> None:
    """One line of what was run; below it the end of its output if it failed."""
    print(f"  {'ok  ' if code == 0 else 'FAIL'} {seconds:5.1f} s  {what}")
    if code:
        lines = Path("log.txt").read_text(errors="replace").strip().splitlines()
        print("       " + "\n       ".join(lines[-12:]))


def run_python(programs: list[tuple[str, str]]) -> None:
    """Run the blocks of a page in one namespace; AssertionError: other output than is shown.

    Shown are a block of text below the block, or comments `# → value` behind or below a statement.
    """
    names: dict[str, object] = {"__name__": "__main__"}
    for program, shown in programs:
        lines, written = program.splitlines(), ""
        for node in ast.parse(program).body:
            output, value = io.StringIO(), None
            with contextlib.redirect_stdout(output):
                if isinstance(node, ast.Expr):
                    value = eval(compile(ast.Expression(node.value), "a page", "eval"), names)
                else:
                    exec(compile(ast.Module([node], []), "a page", "exec"), names)
            got = output.getvalue() or ("" if value is None else repr(value))
            written += output.getvalue()
            below = itertools.takewhile(ARROW.match, lines[node.end_lineno :])
            arrows = [line.partition("# →") for line in (lines[node.end_lineno - 1], *below)]
            if expected := "\n".join(text for _, arrow, text in arrows if arrow):
                require_same(expected, got)
        if shown:
            require_same(shown, written)


ARROW = re.compile(r"\s*# →")


def require_same(expected: str, got: str) -> None:
    """AssertionError unless both are the same, white space and `pages.masked` aside; `…` is for
    anything, and below `pages.ABOUT` decimal numbers are about the same."""
    import pages

    is_about, expected = expected.startswith(pages.ABOUT), expected.removeprefix(pages.ABOUT)
    pieces = [" ".join(piece.split()) for piece in pages.masked(expected).split("…")]
    numbers = [float(x) for piece in pieces for x in DECIMAL.findall(piece)] if is_about else []
    patterns = [re.escape(piece) for piece in pieces]
    if is_about:
        patterns = [ESCAPED_DECIMAL.sub(lambda _: f"({DECIMAL.pattern})", p) for p in patterns]
    found = " ".join(pages.masked(got).split())
    match = re.fullmatch(r"\s*.*?\s*".join(patterns), found, re.DOTALL)
    close = match is not None and all(
        abs(float(text) - number) <= max(0.1, abs(number) / 5)
        for text, number in zip(match.groups(), numbers, strict=True)
    )
    if not close:
        raise AssertionError(f"the page shows\n{expected.strip()}\nand it is\n{got.strip()}")


DECIMAL = re.compile(r"\d+\.\d+")
ESCAPED_DECIMAL = re.compile(r"\d+\\\.\d+")
KEPT = ("kg", "kg/", "atlas", "atlas/")
READ = """
import sys, tempfile
from pathlib import Path
from random import Random
from tests.fuzz.openers import OPENERS
from tests.fuzz.targets import ALLOWED, CORPUS, READERS
from tests.fuzz.targets import kept_corpus

failed, refused = [], {}
SEVERAL = ("graph.any", "graph.rdf")  # of many formats
for name, target in READERS.items():
    n = 0
    corpus = CORPUS / name.removeprefix("graph.")
    seeds = kept_corpus(corpus.name) if corpus.is_dir() else target.seeds()
    for files in seeds:
        if n and name not in SEVERAL:
            break
        with tempfile.TemporaryDirectory() as folder:
            for file, data in files.items():
                (Path(folder) / file).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / file).write_bytes(data)
            try:
                target.run(Path(folder), Random(0))
                n += 1
            except ALLOWED as error:
                refused[name] = f"{sorted(files)}: {str(error)[:160]}"
    if not n:
        failed.append(name)
        print(f"  {name} {refused[name]}")
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
BEHIND_EXTRAS = ("kept.apps.serve.", "kept.layers.gat_conv")  # these need their extra first
faults, n = {}, 0
for top in ("kg_loaders", "entity_linking", "kept"):
    for found in pkgutil.walk_packages(importlib.import_module(top).__path__, top + "."):
        if found.name.endswith("__main__"):
            continue
        n += 1
        try:
            importlib.import_module(found.name)
        except Exception as error:
            extra = "pip install 'kept[" in str(error) or found.name.startswith(BEHIND_EXTRAS)
            if not extra:
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

    import kept.apps.cli  # what every process here is forked with

    sys.path.append(str(HERE))
    failed = bool(leads)
    failed |= not run_program(DECLARED, checkout)
    failed |= not run_program(READ, checkout, with_tests=True)
    return int(bool(run_pages(checkout, all_pages="--all" in sys.argv)) or failed)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    sys.exit(main())
