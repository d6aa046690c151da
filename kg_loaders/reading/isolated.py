"""Start a module of kg_loaders in a Python process that the user's environment does not reach.

The process runs with `-I -S`: no PYTHON* variable, no folder of the user and no .pth file has an
effect, and it starts quickly. It must still find kg_loaders and what that imports, however they
are installed (in a folder of `sys.path`, or editable through an import hook), so it is given this
process's `sys.path` and the folder that kg_loaders was imported from.

The process runs this file as a script: it may import nothing but the standard library.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import json
import subprocess
import sys
import traceback
from pathlib import Path
from typing import IO, Any

PACKAGE = "kg_loaders"
OWN_FAULT = 70
"""The exit code of a process that ended by an exception nobody foresaw: a fault of ours."""
NO_SCRIPT = 2
"""The exit code of Python where the script it is to run is not there."""


def start(
    module: str, *arguments: str, stdin: IO[bytes] | int, stderr: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Return the process that runs `main()` of `module`; its output is a pipe.

    `module` finds `arguments` at the end of `sys.argv`. Raises OSError where no process starts.
    """
    package = str(Path(__file__).parents[1])
    setting = json.dumps({"path": [*map(str, sys.path)], "package": package, "module": module})
    command = [sys.executable, "-I", "-S", __file__, setting, *arguments]
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr)


def is_own_fault(exit_code: int) -> bool:
    """Return whether a process that ended so did by a fault of ours, not by what it was given."""
    return exit_code in (OWN_FAULT, NO_SCRIPT)


class ImportHooks:
    """The last finder: runs the .pth files of `sys.path` once, when a module is not there.

    An editable install is a .pth file that adds a finder; running them all at each start would
    take longer than most documents do.
    """

    def __init__(self) -> None:
        self.has_run = False

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return what the hooks of editable installs find."""
        if self.has_run or path is not None:
            return None
        self.has_run = True
        import site

        known = list(sys.meta_path)
        for folder in list(sys.path):
            if Path(folder).name in ("site-packages", "dist-packages"):
                site.addsitedir(folder)
        importlib.invalidate_caches()
        new: list[Any] = [finder for finder in sys.meta_path if finder not in known]
        for finder in (importlib.machinery.PathFinder, *new):
            spec: importlib.machinery.ModuleSpec | None = finder.find_spec(fullname, None)
            if spec is not None:
                return spec
        return None


def _set_up(path: list[str], package: str) -> None:
    """Make importable what the parent could import; kg_loaders is the parent's own."""
    sys.path[:] = path
    sys.meta_path.append(ImportHooks())
    spec = importlib.util.spec_from_file_location(
        PACKAGE, Path(package) / "__init__.py", submodule_search_locations=[package]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{package} is not a package")
    sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[PACKAGE])


def _run(setting: dict[str, Any]) -> None:
    _set_up(setting["path"], setting["package"])
    importlib.import_module(setting["module"]).main()


if __name__ == "__main__":
    try:
        _run(json.loads(sys.argv[1]))
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - every error that a document can cause is handled by then
        traceback.print_exc()
        sys.exit(OWN_FAULT)
