"""The explorer as a widget in a running JupyterLab: a cell is run, and a picture taken of it.

    python .ci/journeys/notebook.py TESTS KG TEXT PICTURES [MODEL ...]

TESTS is the folder of the tests, whose driver of Chromium is used. Needs jupyterlab, ipykernel and
anywidget in the environment of PYTHON, and Chromium.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

APP = "window.jupyterapp"
FRAME = "document.querySelector('iframe[title=\"kept explore\"]')"


def main(tests: str, kg: str, text: str, pictures: str, *models: str) -> None:
    sys.path.insert(0, f"{tests}/kept")
    from chromium import Chromium, find_chromium

    program = find_chromium()
    if program is None:
        raise SystemExit("no Chromium: apt-get install chromium")
    out = Path(pictures).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        notebook(Path(home) / "cell.ipynb", kg, text, models)
        port, token = free_port(), secrets.token_hex(16)
        with started(Path(home), port, token) as server:
            try:
                wait_for(f"http://127.0.0.1:{port}/api?token={token}")
                with Chromium(program, Path(home) / "profile") as browser:
                    browser.window(1300, 1500)
                    look(browser, f"http://127.0.0.1:{port}/lab/tree/cell.ipynb?token={token}", out)
            finally:
                server.terminate()


def look(browser: Any, url: str, out: Path) -> None:
    """Run the cell, wait for the page in its frame, and take its picture."""
    browser.open(url)
    kernel = f"{APP}.shell.currentWidget?.sessionContext?.session?.kernel"
    browser.until(f"{APP} && {kernel}?.status === 'idle'", 240)
    browser.run(f"void {APP}.commands.execute('runmenu:run-all')")
    browser.until(FRAME, 240)
    browser.run(f"{FRAME}.scrollIntoView()")
    time.sleep(20)  # the frame is sandboxed: what it shows is seen in the picture alone
    browser.screenshot(out / "notebook.png")
    room = f"{FRAME}.getBoundingClientRect().right - {FRAME}.closest('.jp-OutputArea-output')"
    hidden = browser.run(f"{room}.getBoundingClientRect().right")
    if hidden > 1:
        raise SystemExit(f"{hidden} pixels of the page are beyond the cell")
    faults = [line for line in browser.console if "kept" in line]
    if faults:
        raise SystemExit(f"the notebook said {faults}")


def notebook(path: Path, kg: str, text: str, models: tuple[str, ...]) -> None:
    """A notebook of one cell."""
    folders = [str(Path(model).resolve()) for model in models]
    code = (
        "from kept.apps.explorer.widget import explore\n\n"
        f"explore({str(Path(kg).resolve())!r}, models={folders!r}, text={text!r}, height=1300)"
    )
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [],
            "source": code, "id": "explore"}  # fmt: skip
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    whole = {"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(whole), encoding="utf-8")


def started(home: Path, port: int, token: str) -> subprocess.Popen[bytes]:
    """JupyterLab on the loopback interface alone, with settings and files of its own."""
    command = [
        sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
        f"--port={port}", f"--IdentityProvider.token={token}", "--expose-app-in-browser",
        f"--ServerApp.root_dir={home}", "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    own = {"JUPYTER_CONFIG_DIR": str(home / "config"), "JUPYTER_RUNTIME_DIR": str(home / "run"),
           "IPYTHONDIR": str(home / "ipython")}  # fmt: skip
    log = (home / "log.txt").open("wb")
    return subprocess.Popen(command, env=os.environ | own, stdout=log, stderr=log)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str) -> None:
    """Return once the server answers; TimeoutError after three minutes."""
    end = time.monotonic() + 180
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(f"{url} did not answer")


if __name__ == "__main__":
    main(*sys.argv[1:])
