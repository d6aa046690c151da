"""From the report of `pip install --dry-run --report` to requirements with hashes (`make lock`).

python .ci/lock.py report.json > requirements.lock
"""

from __future__ import annotations

import json
import sys
from typing import Any

HEADER = """\
# Every package of `make venv`, with the hash of the file that pip chose: {platform}.
# `make venv LOCKED=1` installs these and nothing else; `make lock` writes this file anew."""


def lines(report: dict[str, Any]) -> list[str]:
    """Requirements in order of their names; a folder, which is kept itself, has no hash."""
    found = []
    for item in report["install"]:
        archive = item["download_info"].get("archive_info")
        if archive is None:
            continue
        name, version = (
            item["metadata"]["name"].lower().replace("_", "-"),
            item["metadata"]["version"],
        )
        found.append(f"{name}=={version} --hash=sha256:{archive['hashes']['sha256']}")
    return sorted(found)


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    about = report["environment"]
    platform = ", ".join(
        about[name]
        for name in ("implementation_name", "python_version", "sys_platform", "platform_machine")
    )
    print(HEADER.format(platform=platform), *lines(report), sep="\n")


if __name__ == "__main__":
    main()
