"""A small hostile world: labels that a browser would run; and a server of an explorer."""

from __future__ import annotations

import threading
from typing import Any

from kept.apps.explorer.explorer import Explorer
from kept.apps.explorer.server import ExplorerServer
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

HOSTILE = (
    '<img src=x onerror="window.broken=1">',
    "</script><script>window.broken=1</script>",
    '"><svg onload="window.broken=1"></svg>',
    "</style><style>@@data@@</style>",
    "\u202e\x07Reversed & \x00 &lt;b&gt;",
)
"""Labels of the entities Q10, Q11, …, each with a fact of Q1."""
TEXT = "The Seine flows through Paris, and Paris is old."


def hostile_graph() -> KnowledgeGraph:
    """Paris, twice, the Seine, and entities and a relation with hostile labels."""
    records: list[Any] = [
        Triple("Q1", "P1", "Q2"),
        Triple("Q2", "P1", "Q1"),
        Triple("Q1", "P3", "Q4"),
        Text("Q1", TextKind.LABEL, "Paris"),
        Text("Q1", TextKind.DESCRIPTION, "a city <b>of</b> France"),
        Text("Q2", TextKind.LABEL, "Seine"),
        Text("Q3", TextKind.LABEL, "Paris"),
        Text("Q3", TextKind.DESCRIPTION, "a prince of Troy"),
        Text("Q4", TextKind.LABEL, "France"),
        Text("P1", TextKind.LABEL, "near", is_relation=True),
        Text("P3", TextKind.LABEL, "</title><script>window.broken=1</script>", is_relation=True),
    ]
    for i, label in enumerate(HOSTILE):
        records += [Triple("Q1", "P1", f"Q{10 + i}"), Text(f"Q{10 + i}", TextKind.LABEL, label)]
    return graph_from_records(records)


class served:
    """A server that runs while the block does."""

    def __init__(self, explorer: Explorer, texts: list[str] | None = None, **more: Any) -> None:
        self.server = ExplorerServer(explorer, texts or [TEXT], **more)
        self._thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.05}
        )

    def __enter__(self) -> ExplorerServer:
        self._thread.start()
        return self.server

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()
