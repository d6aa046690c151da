"""Pictures of pages that are files, as Chromium shows them: PAGE.png beside each.

    python .ci/journeys/pictures.py TESTS PAGE ...

TESTS is the folder of the tests, whose driver of Chromium is used.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path


def main(tests: str, *pages: str) -> None:
    sys.path.insert(0, f"{tests}/kept")
    from chromium import Chromium, find_chromium

    program = find_chromium()
    if program is None:
        raise SystemExit("no Chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as profile, Chromium(program, Path(profile)) as browser:
        browser.window(1200, 900)
        for page in map(Path, pages):
            browser.open(page.resolve().as_uri())
            time.sleep(1)  # what a page draws once it is loaded
            browser.screenshot(page.with_suffix(".png"))
        if browser.console:
            raise SystemExit(f"the pages said {browser.console}")


if __name__ == "__main__":
    main(*sys.argv[1:])
