"""`explore`: the explorer from Python, in a thread of this process, until it is closed."""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from kept.apps.explorer.opening import open_explorer
from kept.apps.explorer.page import refuse_page, static_page
from kept.apps.explorer.server import ExplorerServer
from kept.linking.graphs import folder_of
from kg_loaders import KnowledgeGraph, open_graph
from kg_loaders.disk.writing import write_text


class Explored:
    """An explorer that is being served; `url` is its address, `close()` ends it.

    In a `with` block it is closed at the end of the block.
    """

    def __init__(self, server: ExplorerServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the page; it answers this machine alone."""
        return self._server.url

    def open(self) -> None:
        """Open the page in the browser."""
        webbrowser.open(self.url)

    def close(self) -> None:
        """End the server; closing twice is allowed."""
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Explored:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Explored({self.url!r}); .open() shows it in the browser, .close() ends it"

    def _repr_html_(self) -> str:
        return f'<a href="{escape(self.url)}" target="_blank">{escape(self.url)}</a>'


def explore(
    kg: KnowledgeGraph | str | Path,
    text: str | Sequence[str] = (),
    *,
    model: str | Path | Sequence[str | Path] = (),
    output: str | Path | None = None,
    corrections: str | Path = "gold.jsonl",
    tokenizer: str = "minilm",
    port: int = 0,
    force: bool = False,
    **linking: Any,
) -> Explored | Path:
    """Return the running explorer of a graph and texts; with `output` write one page instead.

    `model` is the folder of a fine-tuned run, or several; `corrections` is where corrected links
    go; `linking` may have `reranker` and `index`, as `kept explore`. With `output` the path is
    returned.

    >>> from kept import atlas
    >>> with explore(atlas.graph(), "The Seine flows through Paris.") as explored:
    ...     explored.url.startswith("http://127.0.0.1:")
    True
    """
    folder = folder_of(open_graph(kg))
    texts = [text] if isinstance(text, str) else list(text)
    runs = [model] if isinstance(model, str | Path) else list(model)
    if output is not None:
        refuse_page(Path(output), force=force, inputs=[folder])
    explorer = open_explorer(
        folder, [Path(run) for run in runs], tokenizer=tokenizer, gold=Path(corrections), **linking
    )
    if output is None:
        return Explored(ExplorerServer(explorer, texts, port=port))
    write_text(Path(output), static_page(explorer, texts), force=True)
    return Path(output)
