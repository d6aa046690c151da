"""The explorer as a widget in notebooks: the same page, whose questions the kernel answers.

The page lies in a sandboxed frame that loads nothing; no server is started, no port is opened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kept.apps.explorer.explorer import Explorer
from kept.apps.explorer.opening import open_explorer, read_texts
from kept.apps.explorer.page import framed_page
from kept.apps.explorer.questions import read_question
from kept.apps.explorer.server import CALLS, FAILURES, Limits
from kept.errors import MissingExtraError

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise MissingExtraError(
        "the explorer in notebooks needs anywidget: pip install 'kept[notebook]'"
    ) from error


class ExplorerWidget(anywidget.AnyWidget):
    """The five panes in a cell; `height` in pixels. `explore` makes one of folders."""

    _esm = Path(__file__).with_name("widget.js")
    page = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int(1000).tag(sync=True)

    def __init__(self, explorer: Explorer, texts: Sequence[str] = (), height: int = 1000) -> None:
        super().__init__(page=framed_page(explorer, texts), height=height)
        self.explorer = explorer
        self.on_msg(self._on_message)

    def answer(self, content: Any) -> dict[str, Any]:
        """Return what goes back to the page for one of its messages; what fails is an answer."""
        number = content.get("kept") if isinstance(content, Mapping) else None
        try:
            kind, method = CALLS[str(content["call"])]
            body = json.dumps(content["body"]).encode()
            if len(body) > Limits.body_bytes:
                raise ValueError(f"the question has more than {Limits.body_bytes:,} bytes")
            reply = getattr(self.explorer, method)(read_question(kind, body))
        except (*FAILURES, KeyError, TypeError, ValueError) as error:
            reply = {"error": str(error)}
        return {"kept": number, "found": reply}

    def _on_message(self, _: Any, content: Any, buffers: Any) -> None:
        self.send(self.answer(content))


def explore(
    kg: str | Path,
    models: Sequence[str | Path] = (),
    text: str = "",
    *,
    gold: str | Path | None = None,
    tokenizer: str = "minilm",
    height: int = 1000,
) -> ExplorerWidget:
    """Return the widget for a graph's folder and fine-tuned runs, as `kept explore` opens them.

    `text`: a text, or a file of one per line. `gold`: the file that corrections are written to.

    >>> explore("kg/", text="Paris lies on the Seine.")                    # doctest: +SKIP
    """
    explorer = open_explorer(
        Path(kg),
        [Path(model) for model in models],
        tokenizer=tokenizer,
        gold=None if gold is None else Path(gold),
    )
    return ExplorerWidget(explorer, read_texts(text) if text else (), height)
