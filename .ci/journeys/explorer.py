"""Open the explorer in Chromium, edit a fact, correct a link; pictures of each step.

    python .ci/journeys/explorer.py TESTS KG RUN TEXT OTHER PICTURES

OTHER names the entity that the first link is corrected to.

TESTS is the folder of the tests, whose driver of Chromium is used.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

IDLE = "!document.querySelector('[aria-busy]') && document.querySelector('#right-body svg')"


def main(tests: str, kg: str, run: str, text: str, other: str, pictures: str) -> None:
    sys.path.insert(0, f"{tests}/kept")
    from chromium import Chromium, find_chromium

    program = find_chromium()
    if program is None:
        raise SystemExit("no Chromium: apt-get install chromium")
    folder = Path(pictures)
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "kept", "explore", "--kg", kg, "--model", run, "--text", text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        try:
            with tempfile.TemporaryDirectory() as profile, Chromium(program, Path(profile)) as page:
                page.window(1200, 900)
                page.open(url)
                page.until(IDLE, 120)
                page.screenshot(folder / "1-opened.png")
                page.run("document.querySelectorAll('#whatif-facts button')[1].click()")
                page.run("document.querySelector('#whatif-facts input').value = 'sailor'")
                page.run("document.querySelector('#whatif-facts form').requestSubmit()")
                page.run("document.querySelector('#rerun').click()")
                page.until("document.querySelector('#difference svg')", 120)
                answer = page.run(
                    "document.querySelector('#difference').children[1].firstChild.textContent"
                )
                sys.stdout.write(f"with another fact: {answer}\n")
                page.screenshot(folder / "2-fact-edited.png")
                page.run(f"document.querySelector('.card form input').value = {json.dumps(other)}")
                page.run("document.querySelector('.card form').requestSubmit()")
                page.until("document.querySelector('.card form .candidates button')")
                page.run("document.querySelector('.card form .candidates button').click()")
                page.until("document.querySelector('#gold').textContent.includes('Written')")
                page.until(IDLE, 120)
                page.screenshot(folder / "3-link-corrected.png")
                if page.console:
                    raise SystemExit(f"the page said {page.console}")
        finally:
            server.terminate()


if __name__ == "__main__":
    main(*sys.argv[1:])
