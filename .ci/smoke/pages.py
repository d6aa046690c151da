"""The shell commands and Python blocks of the README and of the pages, and what is known of each.

A command is a line that begins with `kept`, of a block without a language or of one of the shell,
or a piece of code in a row of the README's tables. `Command.words` makes it small enough to run;
`Command.reason` says why one is not run.

A block of `text` right below a block with one command shows what that command prints, and is
compared with it. Such a command is run as it is, without a smaller budget. `…` in the block means
any text: it is there for what differs from run to run (losses, scores of trained models) and for
what a reader does not need. Durations, sizes of files and memory, and absolute paths are compared
without their values: `masked` has the rule.

Below `<!-- about -->` numbers with a decimal point may differ by a tenth, or by a fifth of
themselves: scores of models that are trained on this machine.

In a tutorial every command shows its output, but for those of `NOT_COMPARED` and `NOT_RUN`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ABOUT = "<!-- about -->\n"
"""Before an output whose numbers with a decimal point are about those of any machine."""
SHOWN = re.compile(
    rf"^```(\w*)\n(.*?)^```$(?:\n+((?:{ABOUT}\n*)?)```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL
)
INDENTED = re.compile(r"^    (kept .*)$", re.MULTILINE)
NAMED = re.compile(
    r"^[^`\n]*`([\w-]+\.[a-z]+)`[^`\n]*:\n+```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
PROGRAM = re.compile(r"^```python\n(.*?)^```$(?:\n+```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
SHELL = ("", "bash", "console", "sh", "shell")
IN_ROW = re.compile(r"`(kept [^`]+)`")

NOT_RUN = {
    "…": "it has a gap that a reader fills",
    "kept demo": "it takes minutes: make demo",
    "kept serve": "it serves until it is ended: tests/kept/apps/serve",
    "kept data get": "it needs the network",
    "kept data check": "it needs downloaded files",
    "--sparql": "it needs the network",
    "bert-base": "it needs a model from the network",
    "private-questions": "it asks a language model hundreds of questions: tests/kept/lab/questions",
    "kept predict runs/task": "its run is of another task than the page's last one",
    "./my-bert": "it reads a model of the user's: tests/kept/lab/probing",
    "--task wiki80": "it needs a data set of 40 MB",
    "--decoder http": "it asks a server that is not started here: tests/kept/decoders/answering",
    "smollm2": "it needs 271 MB of weights: tests/kept/test_smollm2.py",
    "/usr/share/wordnet": "it needs WordNet, a package of the system",
    "--kg wordnet": "it needs WordNet, a package of the system",
    "--collection trex": "it needs a data set of 60 MB",
    "ernie_base/": "it needs a released model",
    "--cloze lama.jsonl": "it needs a data set of 60 MB",
    "kept check reading": "it takes minutes: tests/kept/lab/reading",
    "spacy:": "it needs a model from the network",
    "wikigold": "it needs a data set of the network: tests/kept/linking/tagging",
    "train-encoder": "it trains an encoder for minutes: tests/kept/apps/cli/link",
    "encoder/": "it follows a command that is not run: tests/kept/apps/cli/link",
    "cross/": "it follows a command that is not run: tests/kept/apps/cli/link",
    "tagger/": "it follows a command that is not run: tests/kept/linking/tagging",
    "--scorer ultra": "it trains a graph network for minutes: tests/kept/apps/cli/kgc",
    "other/": "it follows a command that is not run: tests/kept/apps/cli/kgc",
    "check layers": "it trains probes of every layer of two models: tests/kept/lab/probing",
    "check analogies": "its questions need vectors of all their words",
    "--model wang2014": "it needs more text than these files have",
    "--model wikipedia2vec": "it needs more text than these files have",
    "predict NEW P17": "its model is another than the page's last: make journeys",
    "-m space/scorer": "its space holds two steps of training",
    "--add dense": "it follows a command that is not run: tests/kept/apps/cli/link",
    "--add cross": "it follows a command that is not run: tests/kept/apps/cli/link",
    "train=train.txt": "another page has a train.txt of another format",
    "score gold.jsonl linked.jsonl": "its two files are of other texts here",
    "--task typing --format tagme": "its files need more than these few mentions",
    "--decisions pairs.jsonl": "somebody decides first: tests/kept/apps/cli/test_kg_growing.py",
    "kept extend": "its run has rows for entities: tests/kept/training/extending",
}
"""Why a command is not run, by a piece of it."""
NOT_COMPARED = {
    "kept fit ": "it takes three minutes: .ci/fit_worlds.py",
    "--steps 300": "it takes minutes: tests/kept/training/pretraining",
    "kept probe runs/": "it follows a training of minutes: tests/kept/lab/probing",
    "kept compare ": "it takes minutes: tests/kept/lab/comparison",
    "kept report ": "it follows a comparison of minutes: tests/kept/lab/comparison",
}
"""Why a command of a tutorial is run with a tiny budget and not compared, by a piece of it."""
DURATION_OR_SIZE = re.compile(
    r"\b\d[\d.,]*\s(?:ms|s|min|minutes?|seconds?|hours?|[KMG]i?B)\b|\b\d[\d.,]*[KMG]i?B\b"
)
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/])/(?:[\w.+-]+/)+[\w.+-]*")
BUDGET = {
    "--steps": "2", "--epochs": "1", "--seeds": "1", "--max-items": "4", "--edits": "2",
    "--budget": "0.05",
}  # fmt: skip
EXTRA = {
    "kgc train": "--epochs 1", "vectors train": "--epochs 1", "fit": "--budget 0.05 --methods words"
}  # fmt: skip


LONG = ("fit", "pretrain", "finetune", "kgc train", "explore", "show", "curve", "report")
"""Commands of which pages beside the README and the tutorials run one each."""
MAY_FIND = ("audit", "kg check")
"""Commands that end with 1 when they find something."""


def masked(text: str) -> str:
    """Return a text without the values of durations, sizes and absolute paths.

    >>> masked("20 epochs in 14 s, 3.2 MB in /home/ada/runs/mine")
    '20 epochs in # s, # MB in /#'
    """
    text = DURATION_OR_SIZE.sub(lambda found: re.sub(r"\d[\d.,]*", "#", found[0]), text)
    return ABSOLUTE_PATH.sub("/#", text)


class Page(NamedTuple):
    """A page and what it shows."""

    name: str
    text: str
    is_tutorial: bool = False

    @property
    def files(self) -> dict[str, str]:
        """Blocks that the name of a file introduces ("`triples.tsv`:"), by that name."""
        return {
            name: content
            for name, language, content in NAMED.findall(self.text)
            if language != "python" and not content.startswith("kept ")
        }

    @property
    def is_package(self) -> bool:
        """Whether the page makes a package, whose `pyproject.toml` it shows."""
        return "pyproject.toml" in self.files

    @property
    def is_private(self) -> bool:
        """Whether the page builds its graph from its own triples, those of a private world."""
        builds = re.search(r"kept kg build (triples|staff)\.tsv -o kg/", self.text)
        built = re.findall(r"kept kg build ([\w-]+\.\w+) ", self.text)
        has_own = not {*self.files}.isdisjoint({*built, "triples.tsv"})
        return has_own or builds is not None

    @property
    def programs(self) -> list[tuple[str, str]]:
        """Python blocks, each with the output that the page shows below it, or ""."""
        return PROGRAM.findall(self.text)


class Command(NamedTuple):
    """A command as a page has it, and the words that are run."""

    page: Page
    line: str
    shown: str = ""
    """What it prints, as the page shows it; "" where the page does not."""

    @property
    def kind(self) -> str | None:
        """Its name where it takes long, such as "kgc train"; None for any other."""
        rest = self.line.removeprefix("kept ")
        return next((kind for kind in LONG if rest.startswith(f"{kind} ")), None)

    @property
    def reason(self) -> str | None:
        """Why it is not run; None if it is."""
        return next((why for piece, why in NOT_RUN.items() if piece in self.line), None)

    @property
    def reason_not_compared(self) -> str | None:
        """Why a tutorial need not show its output; None if it must."""
        pieces = NOT_COMPARED.items()
        return self.reason or next((why for piece, why in pieces if piece in self.line), None)

    @property
    def missing(self) -> str | None:
        """The first file or folder that it reads and that is not here."""
        words, own = self.words, ("-o", "--output")
        for before, word in pairwise(["", *words]):
            word = word.rpartition("=")[2]  # of test=test.tsv, the file
            is_path = word.endswith("/") or re.search(r"\.[a-z]{2,7}$", word) or "runs/" in word
            if is_path and before not in own and " " not in word and not Path(word).exists():
                return word
        return None

    @property
    def words(self) -> list[str]:
        """The words after `kept`, with pages in the place of servers.

        Budgets are tiny, but where the output is compared.
        """
        words = shlex.split(self.line, comments=True)[1:]
        if not self.shown:
            words = self._with_tiny_budgets(words)
        if words[0] == "explore" and "-o" not in words:
            words += ["-o", "page.html"]
        if words[:2] == ["kg", "build"] and words[-1].startswith("kg") and not self.page.is_private:
            words[-1] = "built/"
        return [word for word in words if word != "--open"]

    @staticmethod
    def _with_tiny_budgets(words: list[str]) -> list[str]:
        for place, word in enumerate(words[:-1]):
            words[place + 1] = BUDGET.get(word, words[place + 1])
        if "--epochs" in words and words[0] in ("pretrain", "finetune"):
            words[words.index("--epochs") : words.index("--epochs") + 2] = ["--steps", "2"]
        is_new_run = words[0] == "finetune" and {"-c", "--config", "--resume"}.isdisjoint(words)
        if is_new_run and "--steps" not in words:
            words += ["--steps", "2"]
        for name, more in EXTRA.items():
            begins = words[: len(name.split())] == name.split()
            if begins and more.split()[0] not in words:
                words += more.split()
        return words


def pages(root: Path, *, all_pages: bool) -> list[Page]:
    """The README and the tutorials, and if wanted the other pages under `docs`."""
    tutorials = sorted(root.glob("docs/tutorials/*.md"))
    left_out = {*tutorials, *root.glob("docs/decisions/*.md")}
    others = sorted(set(root.glob("docs/**/*.md")) - left_out) if all_pages else []
    places = [root / "README.md", *tutorials, *others]
    return [
        Page(place.name, place.read_text(encoding="utf-8"), is_tutorial=place in tutorials)
        for place in places
    ]


def commands(page: Page, seen: set[str]) -> Iterator[Command]:
    """The commands of a page in their order: those not in `seen`, and those with an output.

    Their lines are added to `seen`.
    """
    text = re.sub(r"\\\n\s*", " ", page.text)
    lines = [pair for block in _blocks(page.name, text) for pair in block]
    lines += [(line, "") for line in INDENTED.findall(FENCED.sub("", text))]
    if page.name == "README.md":
        rows = [row for row in text.splitlines() if row.startswith("|")]
        lines += [(piece, "") for row in rows for piece in IN_ROW.findall(row)]
    for line, shown in lines:
        line = _command(line)
        if line and (shown or line not in seen):
            seen.add(line)
            yield Command(page, line, shown)


def _blocks(name: str, text: str) -> Iterator[list[tuple[str, str]]]:
    """The lines of each block of the shell, each with the output that is shown."""
    for language, content, about, shown in SHOWN.findall(text):
        if language not in SHELL:
            continue
        lines = content.splitlines()
        n_commands = sum(bool(_command(line)) for line in lines)
        if shown and n_commands > 1:
            raise ValueError(
                f"{name}: the output below {lines[0]!r} is of {n_commands} commands; give each "
                "its own block"
            )
        yield [(line, ABOUT * bool(about) + shown if shown else "") for line in lines]


def _command(line: str) -> str:
    """A line as a command of kept; "" if it is none."""
    line = line.strip().removeprefix("$ ").split("  #")[0].strip()
    is_whole = len(line.split()) > 2 or line == "kept demo"
    return line if line.startswith("kept ") and is_whole else ""
