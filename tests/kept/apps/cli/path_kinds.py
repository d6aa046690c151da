"""Kinds of paths, for each option and argument of each command that takes one.

The lines are made from the commands themselves: a line that ends at once, in which one path is
replaced by one of the kinds.
"""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import stat
import zipfile
from pathlib import Path
from typing import Any

from tests.fuzz.options import commands

BASES = {
    "demo": "-o out --config x.tsv",
    "explore": "--kg kg -o out.html --text text.txt --tokenizer model",
    "show": "Paris --kg kg -o out.html --tokenizer model",
    "doctor": "",
    "fit": "x.tsv --kg kg -o out",
    "pretrain": "-o out --kg kg --text gold.jsonl --host model --steps 1 --method nobody",
    "finetune": "-o out --train x.tsv --task nothing",
    "predict": "model text.txt --kg kg",
    "ask": "Paris --kg kg",
    "extend": "model --kg kg -o out",
    "convert": "kbert x.tsv -o out",
    "serve": "--kg kg --model model --run model",
    "compare": "--task x --budget 0 -o out",
    "report": "empty --task x",
    "probe": "model --kg kg",
    "audit": "--kg kg --triples test=x.tsv",
    "curve": "model -o out",
    "kg build": "x.tsv -o out",
    "kg add": "kg x.tsv -o out",
    "kg merge": "kg -o out.jsonl",
    "kg query": "kg SELECT",
    "kg literals": "x.nt -o out.tsv",
    "kg info": "kg",
    "kg check": "kg",
    "kg export": "kg -o out.nt",
    "link text": "text.txt --kg kg -o out.jsonl",
    "link index": "kg -o out",
    "link train": "gold.jsonl --kg kg -o out",
    "link train-tagger": "gold.jsonl -o out --host model",
    "link train-encoder": "gold.jsonl --kg kg -o out --host model",
    "link calibrate": "gold.jsonl --kg kg -o out",
    "link score": "gold.jsonl gold.jsonl",
    "link corrupt": "gold.jsonl -o out.jsonl",
    "data list": "",
    "data get": "nothing",
    "data check": "codex-s --data kg",
    "kgc train": "kg -o out --epochs 1 --width 2",
    "kgc eval": "kg -m model",
    "kgc predict": "Q1 P1 --kg kg -m model",
    "vectors train": "--kg kg --text gold.jsonl -o out",
    "check layers": "model --train x.tsv --test x.tsv -o out",
    "check analogies": "model --questions text.txt -o out",
    "check reading": "--methods nobody -o out",
}
"""A line of each command that ends at once, with a result or a message."""
ALSO_PATHS = {
    "decoder", "held_out", "host", "model", "models", "probe", "source", "spaces", "tagger", "text",
    "tokenizer",
}  # fmt: skip
"""Parameters that are texts and may be paths."""
PAIRS = {"triples": "test=", "context": "http://a/b="}
"""Parameters whose values end with a path, and how they begin."""


LONGEST, TOO_LONG = "n" * 255, "n" * 300
NOT_REGULAR = ("pipe", "socket", "/dev/null", "/dev/zero", "/dev/stdin", "/dev/fd/0", "to_pipe")
NOT_THERE = ("dangling", "loop", TOO_LONG, "a/" * 2500, "gone", "x.tsv/in_a_file")
NO_NAMES = ("a\0b", "", "\udcff")
"""What no shell can give, or an empty word."""
THINGS = (
    ".", "empty", "full", "x.tsv", "x.tsv/", "kg", "kg/", "model", "empty.tsv",
    "/proc/self/environ", "/proc/self/mem", "/proc/version", "/proc", "/", "~", "line\nend.tsv",
    "-dash.tsv", "tab\t.tsv", LONGEST, "raw\udcff.tsv", "e\u0301.tsv", "to_file", "to_folder",
    "unreadable", "unreadable_folder", "x.tsv.gz", "x.zip", "x.zip::x.tsv", "x.zip::gone",
    "x.zip::",
)  # fmt: skip
"""What is there, whether or not it is what the command needs."""
COPIES = (
    "line\nend.tsv", "-dash.tsv", "tab\t.tsv", LONGEST, "raw\udcff.tsv", "e\u0301.tsv", "unreadable"
)  # fmt: skip
LINKS = {
    "to_pipe": "pipe", "dangling": "gone", "loop": "loop", "to_file": "x.tsv", "to_folder": "kg"
}  # fmt: skip


def make_kinds() -> None:
    """In the working directory: something of each kind that the lines name."""
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    for name, target in LINKS.items():
        os.symlink(target, name)
    os.mkdir("empty")
    os.makedirs("full/inner")
    shutil.copy("x.tsv", "full/x.tsv")
    Path("empty.tsv").touch()
    for name in COPIES:
        shutil.copy("x.tsv", name)
    os.chmod("unreadable", 0)
    os.mkdir("unreadable_folder", 0)
    Path("x.tsv.gz").write_bytes(gzip.compress(Path("x.tsv").read_bytes()))
    with zipfile.ZipFile("x.zip", "w") as archive:
        archive.write("x.tsv")


def content(folder: Path = Path()) -> dict[str, bytes | str]:
    """Everything in a folder: the bytes of files, and what else is of which kind."""
    files: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        is_file = stat.S_ISREG(mode)
        files[str(path)] = path.read_bytes() if is_file else str(stat.S_IFMT(mode))
    return files


def path_parameters(command: Any) -> list[Any]:
    """The parameters of a command that take a path."""
    return [
        each
        for each in command.params
        if "Path" in str(each.type_descriptor.annotation)
        or each.name in ALSO_PATHS
        or each.name in PAIRS
    ]


def every_command() -> dict[str, Any]:
    """The commands by the words that call them."""
    return {
        " ".join(names): command
        for names, command in commands()
        if not hasattr(command, "commands")
    }


def words_with(name: str, command: Any, parameter: Any, path: str) -> list[str]:
    """The line of `BASES`, its value of one parameter replaced by a path."""
    values = _values(command, BASES[name].split())
    values[parameter.name] = [PAIRS.get(parameter.name, "") + path]
    options, arguments = [], []
    for each in command.params:
        for value in values.get(each.name, ()):
            if _is_option(each):
                long = next(word for word in each.opts if word.startswith("--"))
                options.append(f"{long}={value}")
            else:
                arguments.append(value)
    return [*name.split(), *options, "--", *arguments]


def _values(command: Any, words: list[str]) -> dict[str, list[str]]:
    by_option = {word: each.name for each in command.params for word in each.opts}
    arguments = [each for each in command.params if not _is_option(each)]
    values: dict[str, list[str]] = {}
    while words:
        word = words.pop(0)
        if word.startswith("-"):
            values.setdefault(by_option[word], []).append(words.pop(0))
        else:
            last = arguments[0] if arguments[0].nargs == -1 else arguments.pop(0)
            values.setdefault(last.name, []).append(word)
    return values


def _is_option(parameter: Any) -> bool:
    return bool(parameter.opts[0].startswith("-"))
