"""The program that answers one SPARQL query in a process of its own (`kg_loaders.rdf.sparql`).

A line of JSON on standard input is the task (`query`, `prefixes`, limits); the statements follow as
N-Triples. The last line of standard error is the outcome as JSON: the kind of the query, or a fault
with its message. The answer goes to standard output: TSV of a SELECT, N-Triples of a CONSTRUCT or
DESCRIBE, true or false of an ASK. Nothing of kept's is imported: pyoxigraph alone has to be there.
"""

from __future__ import annotations

import json
import sys
from typing import Any, BinaryIO

import pyoxigraph as ox


class LimitError(Exception):
    """More rows or bytes than are allowed; the message is `rows` or `bytes`."""


class Counter:
    """A binary file that passes everything on and ends at so many rows or bytes."""

    def __init__(self, sink: BinaryIO, n_rows: int, n_bytes: int) -> None:
        self._sink, self._rows, self._bytes = sink, n_rows, n_bytes

    def write(self, data: bytes) -> int:
        """Pass `data` on; raises `LimitError`."""
        self._rows -= data.count(b"\n")
        self._bytes -= len(data)
        if self._rows < 0:
            raise LimitError("rows")
        if self._bytes < 0:
            raise LimitError("bytes")
        return self._sink.write(data)

    def flush(self) -> None:
        """Pass it on."""
        self._sink.flush()


def answer(store: ox.Store, task: dict[str, Any], sink: BinaryIO) -> str:
    """Write the answer to `sink`; returns SELECT, ASK or GRAPH."""
    results = store.query(task["query"], prefixes=task["prefixes"])
    counter: Any = Counter(sink, task["rows"] + isinstance(results, ox.QuerySolutions),
                           task["answer_bytes"])  # fmt: skip
    if isinstance(results, ox.QueryBoolean):
        sink.write(b"true" if results else b"false")
        return "ASK"
    if isinstance(results, ox.QuerySolutions):
        results.serialize(counter, ox.QueryResultsFormat.TSV)
        return "SELECT"
    seen: dict[str, None] = {}
    for triple in results:  # a graph is a set, and pyoxigraph gives a triple for each solution
        line = f"{triple} .\n"
        if line not in seen:
            seen[line] = None
            counter.write(line.encode())
    return "GRAPH"


def is_node(store: ox.Store, term: ox.NamedNode) -> bool:
    """Whether a term is the subject or object of a statement."""
    return any(
        next(store.quads_for_pattern(*ends), None) is not None
        for ends in ((term, None, None), (None, None, term))
    )


def limit_process(memory_bytes: int, seconds: int) -> None:
    """Limit memory and processor time from now on, where the system can."""
    try:
        import resource
    except ImportError:  # no such limits on Windows
        return
    for name, value in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(name)
        soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (soft, hard))
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used.ru_utime + used.ru_stime) + seconds + 1
    soft = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def forbid_new_files() -> None:
    """Open nothing from now on: no file, and no connection to another machine."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))


def outcome(task: dict[str, Any]) -> dict[str, str]:
    """Check the query, load the statements and answer; the kind, or a fault."""
    limit_process(task["memory_bytes"], task["seconds"])
    try:
        ox.Store().query(task["query"], prefixes=task["prefixes"])
    except SyntaxError as error:
        return {"fault": "syntax", "message": str(error)}
    except (RuntimeError, OSError, ValueError) as error:
        return {"fault": "evaluation", "message": str(error)}
    limit_process(task["memory_bytes"], task["load_seconds"])
    store = ox.Store()
    store.bulk_load(sys.stdin.buffer, ox.RdfFormat.N_TRIPLES, lenient=True)
    for iri in task["nodes"]:
        if not is_node(store, ox.NamedNode(iri)):
            return {"fault": "absent", "message": iri}
    limit_process(task["memory_bytes"], task["seconds"])
    forbid_new_files()
    try:
        return {"kind": answer(store, task, sys.stdout.buffer)}
    except LimitError as limit:
        return {"fault": str(limit), "message": ""}
    except MemoryError:
        return {"fault": "memory_bytes", "message": ""}
    except (RuntimeError, OSError, ValueError) as error:
        return {"fault": "evaluation", "message": str(error)}


def main() -> None:
    """Answer the query of standard input."""
    task = json.loads(sys.stdin.buffer.readline())
    result = outcome(task)
    sys.stdout.buffer.flush()
    sys.stderr.write("\n" + json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
