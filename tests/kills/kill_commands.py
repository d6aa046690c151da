"""The commands that are killed, on tiny inputs, and what must be true of them afterwards."""

from __future__ import annotations

import hashlib
import json
import re
import resource
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from kg_loaders.disk.writing import whole_file
from tests.kept.tasks.public_data.test_public_data import FILES
from tests.kills.kill_harness import Death, Ended, run_child

TIMES = re.compile(r"second|millisecond|peak_memory|cpu|^times$|in_steps")
"""Names of what no two runs have in common."""
UNSTABLE = ("README.md", "environment.json", "curves.png", "tiny.md")


@dataclass(frozen=True)
class Command:
    """`arguments` and `again`, what goes on after a kill; OUT, IN and WORLD stand for folders.

    `target` is the one output that must be old or whole at every moment ("" where it is a folder
    that fills up). `before` puts into OUT what is there already. `is_timed`: what it chooses
    depends on how fast the machine is, so of its files only the names are compared.
    """

    name: str
    arguments: Sequence[str]
    again: Sequence[str]
    target: str = ""
    before: Callable[[Path, Path], None] = field(default=lambda world, out: None)
    is_timed: bool = False


@dataclass(frozen=True)
class Invocation:
    """The command line, in this process; gives its exit code. No file may have over `n_bytes`."""

    arguments: Sequence[str]
    places: Mapping[str, Path | str]
    n_bytes: int = resource.RLIM_INFINITY

    def __call__(self) -> int:
        from kept.apps.cli import main
        from kept.training import loop

        loop.draw_curves = _undrawn
        places = "|".join(self.places)
        arguments = [
            re.sub(places, lambda m: str(self.places[m[0]]), each) for each in self.arguments
        ]
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.n_bytes, resource.RLIM_INFINITY))
        try:
            sys.argv[1:] = arguments  # as a user gives it: `main` makes the options of one command
            main()
        except SystemExit as ended:
            return int(ended.code or 0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        return 0


def _undrawn(_log: Path, png: Path) -> None:
    """As large as curves, and written as they are; to draw them takes half of a small training."""
    with whole_file(png, force=True) as part:
        part.write_bytes(b"\x89PNG".ljust(40_000, b"."))


# ---- what a folder holds -------------------------------------------------------------------------
def content(folder: Path) -> dict[str, str]:
    """Of every file its digest, of JSON without times; hidden ones too."""
    return {
        path.relative_to(folder).as_posix(): "folder" if path.is_dir() else _digest(path)
        for path in sorted(folder.rglob("*"))
    }


def _digest(path: Path) -> str:
    if path.name in UNSTABLE:
        return "there"
    raw = path.read_bytes()
    if path.suffix in (".json", ".jsonl") and path.name != "tokenizer.json":
        try:
            rows = (
                [json.loads(line) for line in raw.splitlines()]
                if (path.suffix == ".jsonl")
                else json.loads(raw)
            )
        except ValueError:
            return f"not JSON: {hashlib.sha256(raw).hexdigest()}"
        raw = json.dumps(_timeless(rows), sort_keys=True).encode()
    return hashlib.sha256(raw).hexdigest()


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _timeless(inner)
            for key, inner in value.items()
            if not TIMES.search(key) and key not in ("sha256", "files", "seal")
        } | ({"files": sorted(value["files"])} if isinstance(value.get("files"), dict) else {})
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


# ---- one trial -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Trials:
    """A command with its world, and a folder in which every trial takes place anew."""

    command: Command
    world: Path
    folder: Path

    @cached_property
    def reference(self) -> tuple[Ended, dict[str, str], dict[str, str]]:
        """The unkilled run, what was there before it and what it leaves."""
        out = self.fresh()
        before = content(out)
        ended = run_child(self._work(self.command.arguments, out), out)
        assert ended.code == 0, ended.output
        return ended, before, content(out)

    def trial(self, death: Death, before: dict[str, str], whole: dict[str, str]) -> str:
        """Kill, look, go on, look again; returns what was there in between."""
        out = self.fresh()
        killed = run_child(self._work(self.command.arguments, out), out, death)
        where = f"{self.command.name}, {death} ({killed.events[-1]})"
        assert killed.code is None, f"{where} was not reached:\n{killed.output}"
        between = content(out)
        state = self._state(between, before, whole, where)
        resumed = run_child(self._work(self.command.again, out), out)
        done = "exists" in resumed.output  # then what is there must be all of it, as below
        assert resumed.code == 0 or done, f"{where}: cannot go on:\n{resumed.output}"
        after = content(out)
        different = {name for name in {*after, *whole} if after.get(name) != whole.get(name)}
        if self.command.is_timed:
            different = after.keys() ^ whole.keys()
        assert not different, f"{where}, then: {sorted(different)}"
        return state

    def _state(
        self, between: dict[str, str], before: dict[str, str], whole: dict[str, str], where: str
    ) -> str:
        target = self.command.target

        def seen(files: dict[str, str]) -> dict[str, str]:
            return {k: v for k, v in files.items() if k == target or k.startswith(f"{target}/")}

        if not target:
            return "whole" if between == whole else "unfinished"
        for name, wanted in (("whole", whole), ("old", before)):
            if seen(between) == seen(wanted):
                return name
        raise AssertionError(f"{where}: neither old nor whole: {sorted(seen(between))}")

    def fresh(self) -> Path:
        """A new folder with what is there before the command."""
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        self.command.before(self.world, out)
        return out

    def _work(self, arguments: Sequence[str], out: Path) -> Invocation:
        return Invocation(arguments, places_of(self.world, out))


def places_of(world: Path, out: Path) -> dict[str, Path | str]:
    """What OUT, WORLD and the servers of the world stand for."""
    servers = json.loads((world / "servers.json").read_text())
    return {"OUT": out, "WORLD": world, **servers}


# ---- the world and the commands ------------------------------------------------------------------
def make_world(folder: Path, graph: Any) -> None:
    """Files of a graph, texts, a host, an annotated task and an experiment."""
    from tests.kept.training.test_finetune_command import rows
    from tests.kept.training.tiny_pretraining import write_everything

    config = write_everything(folder, graph)
    training = config["training"] | {"steps": 2, "checkpoint_steps": 1, "checkpoint_seconds": None}
    (folder / "pretrain.yaml").write_text(yaml.safe_dump(config | {"training": training}))
    (folder / "t.tsv").write_text("a\tr\tb\nb\tr\tc\nbroken\nc\ts\ta\n")
    (folder / "clean.tsv").write_text("a\tr\tb\n")
    (folder / "labels.tsv").write_text("a\tAnna\nb\tBert\nc\tCarla\n")
    lines = [f"Paris and Germany, number {number}." for number in range(20)]
    (folder / "notes.txt").write_text("\n".join(lines))
    for name, opening in (("train", "the"), ("dev", "old")):
        json_lines = [json.dumps(row) for row in rows(graph, opening)]
        (folder / f"{name}.txt").write_text("\n".join(json_lines))
    stage = {key: training[key] for key in ("steps", "batch_size", "checkpoint_seconds")}
    stage |= {"learning_rate": 0.01, "checkpoint_steps": 1}
    task = {
        "task": "relation", "format": "wiki80", "train": "train.txt", "dev": "dev.txt",
        "kg": "kg", "host": str(folder / "host"), "markers": "none", "training": stage,
    }  # fmt: skip
    experiment = {
        "name": "tiny", "task": task, "methods": {"kbert": {}},
        "pretraining": {"text": "text.jsonl", "n_texts": 8, "training": stage},
        "published": [{"system": "X", "metric": "accuracy", "value": 0.5, "where": "nowhere"}],
        "differs": "Everything.",
    }  # fmt: skip
    (folder / "tiny.yaml").write_text(yaml.safe_dump(experiment))
    _make_run(folder, graph)


def _make_run(folder: Path, graph: Any) -> None:
    """A run for the graph, and a graph that grew."""
    from kept.encoders.ernie import ERNIE
    from kept.hosts import load_host, load_tokenizer
    from kept.randomness import torch_draws
    from kg_loaders.growth.adding import add

    with torch_draws(0, "weights"):
        model = ERNIE.from_host(load_host(folder / "host"), graph)
    model.tokenizer = load_tokenizer(folder / "host")
    model.save_pretrained(folder / "run")
    written = json.dumps({"method": "ernie", "kg": str(folder / "kg")})
    (folder / "run/encoder.json").write_text(written)
    add(folder / "kg", [folder / "clean.tsv"], out=folder / "kg2")


def add_inputs(world: Path, graph: Any, servers: Mapping[str, str]) -> None:
    """Add to a world what further commands read: texts with pairs, a release, data, a query."""
    from tests.kept.convert.releases import RELEASES
    from tests.kept.lab.fitting.private_worlds import WORLDS

    (world / "servers.json").write_text(json.dumps(servers))
    names = [graph.label(i).replace(",", "") for i in range(graph.n_entities)]
    lines = [f"the old {a} and {b},{a},{b}" for a, b in pairwise(names) if a != b]
    (world / "pairs.csv").write_text("\n".join(["text,head,tail", *lines]))
    (world / "all.rq").write_text("SELECT ?s ?p ?o { ?s ?p ?o } ORDER BY ?s ?p ?o")
    RELEASES["kbert"](world, graph, str(world / "kg"))
    WORLDS["roles"](40, 0).write(world / "roles")
    rows = [
        {"path": f"toy/{name}", "size": len(content), "url": f"{servers['OWNER']}/{name}",
         "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in FILES.items()
    ]  # fmt: skip
    toy = {"what": "A toy", "owner": "me", "licence": "CC0", "files": rows}
    (world / "sources.yaml").write_text(yaml.safe_dump({"toy": toy}))


def _old_graph(world: Path, out: Path) -> None:
    shutil.copytree(world / "kg", out / "kg")


def _half_linked(world: Path, out: Path) -> None:
    lines = (world / "links.jsonl").read_bytes().splitlines(keepends=True)
    (out / "links.jsonl.part").write_bytes(b"".join(lines[:7]) + lines[7][:20])
    shutil.copy(world / "part.json", out / "links.jsonl.part.json")


BUILD = (
    "kg", "build", "WORLD/t.tsv", "--labels", "WORLD/labels.tsv", "--quarantine", "OUT/bad",
    "-o", "OUT/kg",
)  # fmt: skip
LINK = ("link", "WORLD/notes.txt", "--kg", "WORLD/kg", "-o", "OUT/links.jsonl")
PRETRAIN = ("pretrain", "-c", "WORLD/pretrain.yaml", "-o", "OUT/run")
VECTORS = (
    "vectors", "train", "--kg", "WORLD/kg", "--text", "WORLD/text.jsonl", "--model", "wang2014",
    "--width", "4", "--epochs", "2", "--min-count", "1", "--set", "options.pages_per_step=8",
    "--set", "checkpoint_seconds=0.000001", "-o", "OUT/run",
)  # fmt: skip
FINETUNE = (
    "finetune", "--task", "relation", "--format", "wiki80", "--train", "WORLD/train.txt",
    "--dev", "WORLD/dev.txt", "--kg", "WORLD/kg", "--method", "kbert", "--host", "WORLD/host",
    "--steps", "2", "--batch-size", "4", "--threads", "1", "--set", "training.checkpoint_steps=1",
    "--set", "training.checkpoint_seconds=null", "-o", "OUT/run",
)  # fmt: skip
KGC = (
    "kgc", "train", "WORLD/kg", "--holdout", "0.2", "--width", "4", "--epochs", "2",
    "--checkpoint-seconds", "0", "-o", "OUT/model",
)  # fmt: skip
ADD = ("kg", "add", "WORLD/kg", "WORLD/clean.tsv", "-o", "OUT/kg")
MERGE = ("kg", "merge", "WORLD/kg", "--decisions", "WORLD/pairs.jsonl", "-o", "OUT/kg")
SPARQL = (
    "kg", "build", "--sparql", "ENDPOINT", "--query", "WORLD/all.rq", "--page-rows", "3",
    "--pause", "0", "-o", "OUT/kg",
)  # fmt: skip
EXPORT = ("kg", "export", "WORLD/kg", "-o", "OUT/x.nt")
INDEX = ("link", "index", "WORLD/kg", "-o", "OUT/index")
PREDICT = (
    "predict", "WORLD/finetuned", "WORLD/pairs.csv", "--kg", "WORLD/kg", "-o", "OUT/answers.jsonl",
)  # fmt: skip
CONVERT = ("convert", "kbert", "WORLD/model.bin", "--set", "n_heads=4", "-o", "OUT/model")
DATA = ("data", "get", "toy", "--accept", "--sources", "WORLD/sources.yaml", "--data", "OUT")
FIT = (
    "fit", "WORLD/roles/data.csv", "--kg", "WORLD/roles/kg", "--host", "WORLD/host",
    "--methods", "words", "--budget", "0.001", "-o", "OUT/run",
)  # fmt: skip
EXTEND = ("extend", "WORLD/run", "--kg", "WORLD/kg2", "-o", "OUT/run")
COMPARE = (
    "compare", "--task", "WORLD/tiny.yaml", "--data", "WORLD", "-o", "OUT/runs", "--seeds", "1",
    "--controls", "off", "--threads", "1",
)  # fmt: skip
COMMANDS = {
    command.name: command
    for command in (
        Command("build", BUILD, (*BUILD, "--force"), "kg"),
        Command("build --force", (*BUILD, "--force"), (*BUILD, "--force"), "kg", _old_graph),
        Command("link", LINK, (*LINK, "--resume"), "links.jsonl"),
        Command(
            "link --resume", (*LINK, "--resume"), (*LINK, "--resume"), "links.jsonl", _half_linked
        ),
        Command("pretrain", PRETRAIN, (*PRETRAIN, "--resume")),
        Command("vectors", VECTORS, (*VECTORS, "--resume")),
        Command("finetune", FINETUNE, (*FINETUNE, "--resume")),
        Command("compare", COMPARE, COMPARE),
        Command("kgc train", KGC, KGC, "model"),
        Command("extend", EXTEND, (*EXTEND, "--force"), "run"),
        Command("add", ADD, (*ADD, "--force"), "kg"),
        Command("merge", MERGE, (*MERGE, "--force"), "kg"),
        Command("build --sparql", SPARQL, (*SPARQL, "--force"), "kg"),
        Command("export", EXPORT, (*EXPORT, "--force"), "x.nt"),
        Command("index", INDEX, (*INDEX, "--force"), "index"),
        Command("predict", PREDICT, (*PREDICT, "--resume"), "answers.jsonl"),
        Command("convert", CONVERT, (*CONVERT, "--force"), "model"),
        Command("data get", DATA, DATA),
        Command("fit", FIT, FIT, is_timed=True),
    )
}
SLOW = ("fit",)
"""Commands that only `make kill` kills: each trial trains three models, twice."""
