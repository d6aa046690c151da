"""The shell commands of the README and of the pages, and what is known of each.

A command is a line of a fenced block without a language, or a piece of code in a table's row, that
begins with `kept`. `changed` makes it small enough to run; `reason` says why one is not run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

FENCED = re.compile(r"^```(?:bash|console|sh)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
IN_ROW = re.compile(r"`(kept [^`]+)`")

NOT_RUN = {
    "…": "it has a gap that a reader fills",
    "kept demo": "it takes minutes: make demo",
    "kept serve": "it serves until it is ended: tests/kept/serve",
    "kept data get": "it needs the network",
    "kept data check": "it needs downloaded files",
    "--sparql": "it needs the network",
    "bert-base": "it needs a model from the network",
    "--task wiki80": "it needs a data set of 40 MB",
    "smollm2": "it needs 271 MB of weights: tests/kept/test_smollm2.py",
    "kept ask": "it needs 271 MB of weights: tests/kept/test_smollm2.py",
    "/usr/share/wordnet": "it needs WordNet, a package of the system",
    "--kg wordnet": "it needs WordNet, a package of the system",
    "--collection trex": "it needs a data set of 60 MB",
    "ernie_base/": "it needs a released model",
    "--cloze lama.jsonl": "it needs a data set of 60 MB",
    "kept check reading": "it takes minutes: tests/kept/reading",
    "spacy:": "it needs a model from the network",
    "wikigold": "it needs a data set of the network: tests/kept/linking/tagging",
    "train-encoder": "it trains an encoder for minutes: tests/kept/cli/link",
    "encoder/": "it follows a command that is not run: tests/kept/cli/link",
    "cross/": "it follows a command that is not run: tests/kept/cli/link",
    "tagger/": "it follows a command that is not run: tests/kept/linking/tagging",
    "--scorer ultra": "it trains a graph network for minutes: tests/kept/cli/kgc",
    "other/": "it follows a command that is not run: tests/kept/cli/kgc",
    "check analogies": "its questions need vectors of all their words",
    "--model wikipedia2vec": "it needs more text than these files have",
    "predict NEW P17": "its model is another than the page's last: make journeys",
    "-m space/scorer": "its space holds two steps of training",
    "--add dense": "it follows a command that is not run: tests/kept/cli/link",
    "--add cross": "it follows a command that is not run: tests/kept/cli/link",
    "train=train.txt": "another page has a train.txt of another format",
    "score gold.jsonl linked.jsonl": "its two files are of other texts here",
    "--task typing --format tagme": "its files need more than these few mentions",
    "kept extend": "its run is one of a method with rows for entities: tests/kept/extending",
}
"""Why a command is not run, by a piece of it."""
BUDGET = {"--steps": "2", "--epochs": "1", "--seeds": "1", "--max-items": "4", "--edits": "2"}
EXTRA = {"kgc train": "--epochs 1", "vectors train": "--epochs 1"}


MAY_FIND = ("audit", "kg check")
"""Commands that end with 1 when they find something."""


class Command(NamedTuple):
    """A command as a page has it, and the words that are run."""

    page: str
    line: str

    @property
    def reason(self) -> str | None:
        """Why it is not run; None if it is."""
        return next((why for piece, why in NOT_RUN.items() if piece in self.line), None)

    @property
    def missing(self) -> str | None:
        """The first file or folder that it reads and that is not here."""
        words, own = self.words, ("-o", "--output")
        for before, word in pairwise(["", *words]):
            is_path = word.endswith("/") or re.search(r"\.[a-z]{2,7}$", word) or "runs/" in word
            if is_path and before not in own and " " not in word and not Path(word).exists():
                return word
        return None

    @property
    def words(self) -> list[str]:
        """The words after `kept`, with tiny budgets and pages in the place of servers."""
        words = shlex.split(self.line, comments=True)[1:]
        for place, word in enumerate(words[:-1]):
            words[place + 1] = BUDGET.get(word, words[place + 1])
        if "--epochs" in words and words[0] in ("pretrain", "finetune"):
            words[words.index("--epochs") : words.index("--epochs") + 2] = ["--steps", "2"]
        for name, more in EXTRA.items():
            if " ".join(words[:2]) == name and "--epochs" not in words:
                words += more.split()
        if words[0] == "explore" and "-o" not in words:
            words += ["-o", "page.html"]
        if words[:2] == ["kg", "build"] and words[-1].startswith("kg"):
            words[-1] = "built/"
        return [word for word in words if word != "--open"]


def commands(root: Path) -> Iterator[Command]:
    """Every command of the README and of the pages under `docs`, each once, in their order."""
    seen: set[str] = set()
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    for page in pages:
        text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
        lines = [line for block in FENCED.findall(text) for line in block.splitlines()]
        if page.name == "README.md":
            rows = [row for row in text.splitlines() if row.startswith("|")]
            lines += [piece for row in rows for piece in IN_ROW.findall(row)]
        for line in lines:
            line = line.strip().removeprefix("$ ").split("  #")[0].strip()
            if line.startswith("kept ") and line not in seen and len(line.split()) > 2:
                seen.add(line)
                yield Command(page.name, line)
