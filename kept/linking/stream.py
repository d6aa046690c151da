"""Links a stream of texts, in this process or in several, and writes what can be gone on with.

While it is written, `out.jsonl` is `out.jsonl.part` beside `out.jsonl.part.json`, which names the
linker. `--resume` keeps the lines that are whole, if they stand for the same texts.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import msgspec

from entity_linking.annotations import to_json
from entity_linking.cache import CachedLinker
from entity_linking.errors import LinkIndexError, LinkingError
from entity_linking.mentions import LinkedText
from entity_linking.parts import Disambiguator
from kept.linking.linkers import LinkerSettings, linker_key, open_graph, open_linker
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.write_errors import write_errors
from kg_loaders.disk.writing import claim, refuse_file, sync, write_bytes

TEXTS_PER_STEP = 256
STEPS_AHEAD = 2
"""Steps in flight for each worker: enough that none waits, few enough to bound the memory."""
COLLECTED_AFTER = (50_000, 20, 20)
"""As `gc.set_threshold` takes it."""


# ---- linking ---------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Work:
    """What a worker needs to know: the settings and the folder of the cache, if there is one.

    `candidates` is the most that a link is written with; None: all.
    """

    settings: LinkerSettings
    cache: str | None = None
    candidates: int | None = None

    def key(self, graph: KnowledgeGraph) -> str:
        """Return what the lines of an output depend on, beside the texts."""
        key = linker_key(self.settings, graph)
        return key if self.candidates is None else f"{key} {self.candidates}"

    def linker(self, graph: KnowledgeGraph) -> Disambiguator:
        """The linker, behind its cache."""
        linker: Disambiguator = open_linker(self.settings, graph)
        if self.cache is None:
            return linker
        return CachedLinker(linker, self.cache, linker_key(self.settings, graph))


def link_items(linker: Disambiguator, items: list[Item]) -> list[LinkedText]:
    """The items linked, in order and with their ids."""
    linked = iter(linker.link([item.linked.text for item in items if not item.is_linked]))
    outputs = iter(linker.disambiguate([item.linked for item in items if item.is_linked]))
    return [
        replace(next(outputs if item.is_linked else linked), id=item.linked.id) for item in items
    ]


def link_lines(
    linker: Disambiguator, items: list[Item], candidates: int | None = None
) -> list[bytes]:
    """Return the items linked, each as a line of JSON with its end.

    `candidates` is the most that a link is written with; None: all.
    """
    texts = zip(link_items(linker, items), items, strict=True)
    return [_with_fields(to_json(text, candidates), item.more) + b"\n" for text, item in texts]


def _with_fields(line: bytes, more: Mapping[str, object]) -> bytes:
    """A JSON object with further fields at its end."""
    return line[:-1] + b"," + msgspec.json.encode(more)[1:] if more else line


def link_stream(
    items: Iterable[Item],
    work: Work,
    graph: KnowledgeGraph,
    n_workers: int,
    cluster: str | None = None,
) -> Iterator[list[LinkedText]]:
    """Steps of linked texts, in the order of `items`, whatever the number of processes.

    With `cluster` they are workers of a Ray cluster (`kept.cluster.over_workers`).
    """
    return _stream(link_items, items, work, graph, n_workers, cluster)


def line_stream(
    items: Iterable[Item],
    work: Work,
    graph: KnowledgeGraph,
    n_workers: int,
    cluster: str | None = None,
) -> Iterator[list[bytes]]:
    """As `link_stream`, each text as a line of JSON: workers write them, and send them far faster
    than the links themselves."""
    step = partial(link_lines, candidates=work.candidates)
    return _stream(step, items, work, graph, n_workers, cluster)


_Linked = TypeVar("_Linked")
_Step = Callable[[Disambiguator, "list[Item]"], "list[_Linked]"]


def _stream(
    step_of: _Step[_Linked],
    items: Iterable[Item],
    work: Work,
    graph: KnowledgeGraph,
    n_workers: int,
    cluster: str | None,
) -> Iterator[list[_Linked]]:
    stream = iter(items)
    steps = iter(lambda: list(islice(stream, TEXTS_PER_STEP)), [])
    if n_workers == 1 and cluster is None:
        linker = work.linker(graph)
        with relaxed_gc():
            for step in steps:
                yield step_of(linker, step)
        return
    with ExitStack() as stack:
        if graph.folder is None:  # a folder is mapped by all, a graph in memory copied to each
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "kg"
            graph.save(folder)
            settings = replace(work.settings, kg=str(folder), labels=(), aliases=())
            work = replace(work, settings=settings)
        if cluster is not None:
            from kept.cluster import over_workers  # few need it

            make = partial(_worker, step_of, work)
            yield from over_workers(make, steps, cluster=cluster, n_workers=n_workers)
            return
        pool = stack.enter_context(ProcessPoolExecutor(n_workers, get_context("spawn")))
        waiting: deque[Future[list[_Linked]]] = deque()
        for step in steps:
            waiting.append(pool.submit(_work_on, step_of, work, step))
            if len(waiting) >= STEPS_AHEAD * n_workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def relaxed_gc() -> Iterator[None]:
    """Look for cycles of objects seldom.

    Linkers remember some hundred thousand objects, none in a cycle; walking over them again and
    again took a sixth of linking.
    """
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTED_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _worker(step_of: _Step[_Linked], work: Work) -> Callable[[list[Item]], list[_Linked]]:
    return partial(step_of, _opened(work))


def _work_on(step_of: _Step[_Linked], work: Work, items: list[Item]) -> list[_Linked]:
    with relaxed_gc():
        return step_of(_opened(work), items)


@lru_cache(maxsize=1)
def _opened(work: Work) -> Disambiguator:
    return work.linker(open_graph(work.settings))


# ---- writing ---------------------------------------------------------------
class _Started(msgspec.Struct):
    linker: str


class PartialOutput:
    """JSON lines that appear as `target` when they are whole, and can be gone on with before.

    A context: while it lasts no other process writes `target`. `key` names the linker. Without
    `resume` a part that is there already is a `LinkingError`; `force` begins anew in its place and
    in that of `target`, which is never one of the `inputs`. Raises `WriteError`.
    """

    def __init__(
        self,
        target: Path,
        key: str,
        *,
        resume: bool,
        force: bool = False,
        inputs: Iterable[str | Path] = (),
    ) -> None:
        self._target_given, self._key = target, key
        self._resume, self._force, self._inputs = resume, force, tuple(inputs)
        self._held = ExitStack()

    def __enter__(self) -> PartialOutput:
        refuse_file(self._target_given, force=True, inputs=self._inputs)
        with self._held:
            self._target = self._held.enter_context(claim(self._target_given))
            self._part = self._target.with_name(f"{self._target.name}.part")
            self._state_file = self._target.with_name(f"{self._target.name}.part.json")
            with write_errors(self._part):
                self._begin()
            self._held = self._held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def _begin(self) -> None:
        if self._force and not self._resume:
            self._part.unlink(missing_ok=True)
            self._state_file.unlink(missing_ok=True)
        if self._part.exists():
            if not self._resume:
                raise LinkingError(
                    f"{self._part} was left by a run that stopped; go on with --resume, begin anew "
                    "with --force, or delete it"
                )
            self._check()
            self._cut()
        elif self._resume and self._target.exists() and self._state_file.exists():
            self._check()  # a run died between giving its output the name and tidying up
            shutil.copyfile(self._target, self._part)
        else:
            refuse_file(self._target, force=self._force)
            write_bytes(self._state_file, msgspec.json.encode(_Started(self._key)), force=True)
            self._part.touch()

    def _check(self) -> None:
        try:
            header = msgspec.json.decode(self._state_file.read_bytes(), type=_Started)
        except (OSError, msgspec.DecodeError) as error:
            raise LinkIndexError(
                f"{self._state_file} does not say what made {self._part.name} ({error}); "
                "delete both"
            ) from error
        if header.linker != self._key:
            raise LinkingError(
                f"{self._part} was started with another graph or other settings; give the "
                f"same, or delete it"
            )

    def _cut(self) -> None:
        """Take the unfinished line at the end away."""
        with self._part.open("r+b") as stream:
            whole = 0
            for line in stream:
                whole += len(line) if line.endswith(b"\n") else 0
            stream.truncate(whole)

    def rows(self) -> Iterator[tuple[int, dict[str, object]]]:
        """The number and the object of each line that is written."""
        with self._part.open("rb") as stream:
            for number, raw in enumerate(stream, 1):
                try:
                    row = msgspec.json.decode(raw, type=dict[str, object])
                except msgspec.DecodeError as error:
                    raise LinkingError(
                        f"{self._part}, line {number}: {error}; delete it and start again"
                    ) from error
                yield number, row

    def other_text(self, number: int, row: Mapping[str, object]) -> LinkingError:
        """The error that line `number`, `row`, is of another text than the input has there."""
        text = str(row.get("text", row.get("question", "")))
        return LinkingError(
            f"{self._part}, line {number} is {text[:60]!r}, which is not text {number} of the "
            "input; give the same input, or delete the part"
        )

    def rest(self, items: Iterator[Item]) -> tuple[int, Iterator[Item]]:
        """How many items are written, and the others; `LinkingError` if they are other texts."""
        n_done = 0
        for n_done, row in self.rows():
            item = next(items, None)
            if item is None or (row.get("id"), row.get("text")) != (
                item.linked.id, item.linked.text,
            ):  # fmt: skip
                raise self.other_text(n_done, row)
        return n_done, items

    def write(self, steps: Iterable[list[bytes]]) -> int:
        """Add the lines and name the file; returns how many were added."""
        n_texts = 0
        try:
            with write_errors(self._part), self._part.open("ab") as sink:
                for step in steps:
                    sink.write(b"".join(step))
                    sink.flush()
                    n_texts += len(step)
        except BaseException:
            if not self._part.stat().st_size:  # nothing to go on with
                self._part.unlink()
                self._state_file.unlink()
            raise
        with write_errors(self._part):
            sync(self._part)
            self._part.replace(self._target)
            self._state_file.unlink()
            sync(self._target.parent)
        return n_texts


@dataclass(frozen=True, slots=True)
class Item:
    """A text to be linked; with `is_linked`, its mentions are those of `linked`.

    `more` are further fields of its line, such as a label, which are written as they are.
    """

    linked: LinkedText
    is_linked: bool
    more: Mapping[str, object] = field(default_factory=dict)
