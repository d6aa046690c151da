"""`python -m experiments STUDY …` runs a study; `kept compare` runs the experiments on tasks.

STUDY is a folder below this one, as `ebert` or `entity_linking/end_to_end`; what follows are the
arguments of its command, mostly CONFIG -o RUN.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Run the study that the first argument names; exits where there is none."""
    name = "".join(sys.argv[1:2]).strip("/")
    for module in ("trial", "__main__"):
        if name and (HERE / name / f"{module}.py").is_file():
            sys.argv = [f"python -m experiments {name}", *sys.argv[2:]]
            module = f"experiments.{name.replace('/', '.')}.{module}"
            runpy.run_module(module, run_name="__main__", alter_sys=True)
            return
    folders = {path.parent for file in ("trial", "__main__") for path in HERE.rglob(f"{file}.py")}
    studies = ", ".join(sorted(str(path.relative_to(HERE)) for path in folders - {HERE}))
    sys.exit(f"no study is called {name!r}: give one of {studies}")


if __name__ == "__main__":
    main()
