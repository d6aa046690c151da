"""Damage done to a folder, one at a time, and what comes of opening it.

`outcomes` copies a whole folder for each damage and asks the copy in a fork of a child process:

    same         the answers of the whole folder
    refused      an error of ours that names the folder
    told         other answers, and the log said that the folder carries no checksums
    DIFFERENT    other answers, with nothing said
    crashed      a signal, a hang, or an error that is none of ours

What is asked stands in `ASKED`; it must tell everything that the folder holds.
"""

from __future__ import annotations

import gc
import hashlib
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from entity_linking.errors import LinkingError
from kept.errors import KeptError
from kg_loaders.disk import seals
from kg_loaders.errors import KgError
from tests.children import with_tests

SECONDS = 60


class Damage(NamedTuple):
    """What is done to a file; `at` is the byte that is flipped, or the bytes that are left."""

    file: str
    how: str
    at: int = 0
    other: str = ""

    def __str__(self) -> str:
        return f"{self.how} {self.file}" + (f" at {self.at}" if self.how == "flip" else "")

    def do(self, folder: Path) -> None:
        path = folder / self.file
        content = bytearray(path.read_bytes())
        match self.how:
            case "delete":
                path.unlink()
            case "flip":
                content[self.at] ^= 1 << (self.at % 8)
                path.write_bytes(content)
            case "cut":
                path.write_bytes(content[: self.at])
            case "lengthen":
                path.write_bytes(content + b"\x01")
            case "swap":
                path.write_bytes((folder / self.other).read_bytes())
                (folder / self.other).write_bytes(content)
            case _:
                raise AssertionError(self.how)


def damages(folder: Path, *, n_flips: int = 6, seed: int = 0) -> list[Damage]:
    """For every file flips at its start, middle, end and drawn places, cuts, and so on."""
    generator = random.Random(seed)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    names = [path.relative_to(folder).as_posix() for path in files]
    damages_: list[Damage] = []
    for name, path in zip(names, files, strict=True):
        size = path.stat().st_size
        if not size:
            continue
        places = dict.fromkeys([0, size // 2, size - 1])
        while len(places) < min(n_flips, size):
            places[generator.randrange(size)] = None
        damages_ += [Damage(name, "flip", at) for at in places]
        damages_ += [Damage(name, "cut", at) for at in {0, size // 2, size - 1}]
        damages_ += [Damage(name, "lengthen"), Damage(name, "delete")]
    by_suffix: dict[str, list[str]] = {}
    for name, path in zip(names, files, strict=True):
        by_suffix.setdefault(path.suffix, []).append(name)
    for alike in by_suffix.values():
        damages_ += [Damage(first, "swap", 0, second) for first, second in pairwise(alike)]
    return damages_


def forge(folder: Path, changes: Mapping[str, Any], manifest: str = "manifest.json") -> None:
    """Change what a manifest says (`{"parts.0.n_names": 9}`) and seal all anew, as it stands."""
    path = folder / manifest
    values = json.loads(path.read_text(encoding="utf-8"))
    for keys, value in changes.items():
        *outer, last = [int(key) if key.isdecimal() else key for key in keys.split(".")]
        parent = values
        for key in outer:
            parent = parent[key]
        parent[last] = value
    for name, stored in values["files"].items():
        if (file := folder / name).is_file():
            content = file.read_bytes()
            stored |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    values["seal"] = seals.seal_of(values)
    path.write_bytes(seals.rendered(values))


class Outcome(NamedTuple):
    """What came of a damage, and the error's words."""

    damage: Damage
    verdict: str
    answer: str


def outcomes(opened: Mapping[str, tuple[Path, list[Damage]]]) -> dict[str, list[Outcome]]:
    """Of each damage to the folder of what is `ASKED`; raises where a whole one does not answer.

    One process asks them all: to load what opens a model takes longer than to open a hundred.
    """
    with tempfile.TemporaryDirectory() as folder:
        request = {"place": folder, "asked": [(k, str(path), d) for k, (path, d) in opened.items()]}
        environment = with_tests(XDG_CACHE_HOME=f"{folder}/cache")
        run = subprocess.run(
            [sys.executable, "-P", "-m", "tests.flips"],
            input=json.dumps(request), capture_output=True, text=True, env=environment,
        )  # fmt: skip
    if run.returncode:
        raise AssertionError(run.stderr[-3000:])
    answers = json.loads(run.stdout.splitlines()[-1])
    return {
        name: [Outcome(damage, *row) for damage, row in zip(damages, answers[name], strict=True)]
        for name, (_, damages) in opened.items()
    }


def table(outcomes: list[Outcome]) -> str:
    """Counts by what was done and what came of it."""
    counts = Counter((each.damage.how, each.verdict) for each in outcomes)
    kinds = dict.fromkeys(each.damage.how for each in outcomes)
    verdicts = ("refused", "same", "told", "DIFFERENT", "crashed")
    rows = [f"{'':10}" + "".join(f"{verdict:>11}" for verdict in verdicts)]
    rows += [f"{how:10}" + "".join(f"{counts[how, v]:11}" for v in verdicts) for how in kinds]
    total = Counter(each.verdict for each in outcomes)
    return "\n".join([*rows, f"{'all':10}" + "".join(f"{total[v]:11}" for v in verdicts)])


# ---- in the child --------------------------------------------------------------------------------
def _graph(folder: Path) -> Iterator[Any]:
    from kg_loaders import KnowledgeGraph, TextKind

    graph = KnowledgeGraph.open(folder)
    yield graph.content_hash, graph.id_space_hash, graph.manifest.languages, graph.manifest.licence
    yield list(graph.entities), list(graph.relations)
    for entity, name in enumerate(graph.entities):
        yield name, graph.entities.id(name), graph.label(entity), graph.description(entity)
        yield graph.outgoing(entity).tolist(), graph.incoming(entity).tolist()
        yield [graph.entity_texts.of(entity, kind) for kind in TextKind]
        yield [graph.entity_texts.of(entity, kind, "en") for kind in TextKind]
    yield [graph.relation_label(i) for i in range(graph.n_relations)]


def _index(folder: Path) -> Iterator[Any]:
    """Names and what is spelled like them; the vectors where there are some."""
    import numpy as np

    from entity_linking.names import NameCandidates
    from kept.linking.index import LinkIndex

    index = LinkIndex.open(folder)
    names = index.names.names(range(index.names.n_names))
    yield names, [index.names.entity(i) for i in range(index.names.n_entities)]
    yield index.names.graph_hashes, index.names.popularity.tolist(), index.names.case
    source = NameCandidates(index.names)
    for name in names:
        yield [repr(each) for each in source.of_surface(name)]
        yield [repr(entry) for entry in index.names.find(name)]
        words = [word.lower() for word in name.split()]
        yield [hits.tolist() for hits in index.names.holders(words)]
    if index.fuzzy is not None:
        surfaces = [name + "x" for name in names] + [name[1:] for name in names]
        yield repr(index.fuzzy.search(surfaces, min_similarity=0.1)), index.fuzzy.graph_hashes
    if index.dense is not None:
        entities = [index.names.entity(i) for i in range(index.names.n_entities)]
        vectors, known = index.dense.vectors(entities)
        yield vectors.tolist(), known.tolist(), index.dense.mean.tolist()
        queries = np.random.default_rng(0).standard_normal((4, vectors.shape[1]))
        yield repr(index.dense.search(queries.astype(np.float32), 3))


def _weights(module: Any) -> Iterator[Any]:
    for name, value in module.state_dict().items():
        yield name, str(value.dtype), tuple(value.shape), value.numpy().tobytes()


def _model(folder: Path) -> Iterator[Any]:
    from kept import hosts
    from kept.auto import AutoEncoder
    from kept.objectives.model import KnowledgeForPreTraining

    model = KnowledgeForPreTraining.from_pretrained(folder)
    yield model.config.to_json_string()
    yield from _weights(model)
    encoder = AutoEncoder.from_pretrained(folder)
    yield repr(encoder), sorted(encoder.tokenizer.get_vocab().items())
    yield hosts.load_tokenizer(folder)("Paris is the capital of France")["input_ids"]


def _host(folder: Path) -> Iterator[Any]:
    from kept import hosts

    host, tokenizer = hosts.load_host(folder), hosts.load_tokenizer(folder)
    yield host.config.to_json_string(), tokenizer("Paris is the capital of France")["input_ids"]
    yield from _weights(host)


def _adapter(folder: Path) -> Iterator[Any]:
    from transformers import AutoConfig

    from kept.adapters.files import read_adapter

    host = AutoConfig.for_model("bert", hidden_size=16, num_hidden_layers=2)
    saved = read_adapter(folder, host)
    yield saved.name, repr(saved.options)
    for name, value in saved.weights.items():
        yield name, value.numpy().tobytes()


def _scorer(folder: Path) -> Iterator[Any]:
    from kept.kge.trained import load_scorer
    from kg_loaders import atlas

    trained = load_scorer(folder, atlas.graph())
    yield trained.training, repr(trained.scorer)
    yield from _weights(trained.scorer)


ANSWERS: dict[str, Callable[[Path], Iterator[Any]]] = {
    "graph": _graph,
    "index": _index,
    "model": _model,
    "host": _host,
    "adapter": _adapter,
    "scorer": _scorer,
}


def _digest(kind: str, folder: Path) -> str:
    digest = hashlib.sha256()
    for answer in ANSWERS[kind](folder):
        digest.update(repr(answer).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


class _Warned(logging.Handler):
    """Keeps what says that the numbers of a folder could not be checked."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "could not be" in record.getMessage():
            self.messages.append(record.getMessage())


def _forked(work: Callable[[], str]) -> tuple[str, str]:
    """`("said", what work returned)`, `("refused", ...)` or `("crashed", ...)`."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        gc.freeze()  # memory that is shared until somebody searches it
        signal.alarm(SECONDS)
        warned = _Warned()
        logging.getLogger("kept").addHandler(warned)
        try:
            answer = work()
            reply = ["told" if warned.messages else "said", answer]
        except (LinkingError, KeptError, KgError) as error:
            reply = ["refused", str(error)]
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
            reply = ["crashed", f"{type(error).__name__}: {error}"]
        with os.fdopen(writes, "w") as sink:
            json.dump(reply, sink)
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as source:
        answer = source.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "crashed", signal.Signals(os.WTERMSIG(status)).name
    verdict, words = json.loads(answer)
    return verdict, words


def _rows(kind: str, whole: Path, damages: list[Any], folder: Path) -> list[tuple[str, str]]:
    """The verdict and the words of each damage."""
    right = _digest(kind, whole)  # here: what this loads, no fork has to load
    rows = []
    for number, values in enumerate(damages):
        copy = folder / str(number)
        shutil.copytree(whole, copy)
        Damage(*values).do(copy)
        verdict, answer = _forked(lambda copy=copy: _digest(kind, copy))  # type: ignore[misc]
        if verdict in ("said", "told") and answer == right:
            verdict, answer = "same", ""
        elif verdict == "said":
            verdict, answer = "DIFFERENT", ""
        elif verdict == "refused" and str(copy) not in answer:
            verdict, answer = "crashed", f"names no file: {answer}"
        rows.append((verdict, answer))
        shutil.rmtree(copy)
    return rows


def _main() -> None:
    request = json.load(sys.stdin)
    rows = {
        name: _rows(name, Path(whole), damages, Path(request["place"]))
        for name, whole, damages in request["asked"]
    }
    sys.stdout.write(json.dumps(rows))


if __name__ == "__main__":
    _main()
