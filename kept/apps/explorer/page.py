"""The page: one HTML file, its style and its script; live from a server, or whole in one file."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kept.apps.explorer.explorer import Explorer
from kept.apps.explorer.questions import MAX_TEXT, Question
from kept.errors import ConfigError, KeptError
from kept.graphs.drawing.draw import asset as drawing_asset
from kept.graphs.drawing.draw import safe
from kept.lab.report.page import is_kept_page
from kg_loaders.disk.writing import refuse_file

COMMON = (
    "default-src 'none'", "base-uri 'none'", "form-action 'none'", "img-src data:",
    "require-trusted-types-for 'script'", "trusted-types kept-drawing",
)  # fmt: skip


_SLOT = re.compile("@@([a-z]+)@@")


@dataclass(frozen=True)
class Page:
    """What a server hands out by name, as (type, body), and the policy that goes with it."""

    files: Mapping[str, tuple[str, bytes]]
    policy: str


def live_page(explorer: Explorer, texts: Sequence[str]) -> Page:
    """Return the page that asks a server; `texts` can be chosen in it.

    Its policy lets nothing be loaded or called but what is at the same address.
    """
    data = {**explorer.about(), "texts": _texts(explorer, texts), "answers": None}
    html = _page('<link rel="stylesheet" href="page.css">', data, '<script src="page.js"></script>')
    policy = (
        *COMMON, "script-src 'self'", f"style-src 'self' {_hash(drawing_asset('graph.css'))}",
        "connect-src 'self'", "frame-ancestors 'none'",
    )  # fmt: skip
    files = {
        "": ("text/html", html.encode("utf-8", "replace")),
        "page.css": ("text/css", _asset("page.css").encode()),
        "page.js": ("text/javascript", _asset("page.js").encode()),
    }
    return Page(files, "; ".join(policy))


def static_page(explorer: Explorer, texts: Sequence[str]) -> str:
    """Return the page with every answer that it needs: links, all readers, what was used.

    What a server computes anew (changed facts, other texts) is not in it. Corrections are shown as
    lines for a file. The answers, most of which are drawings that are alike, are packed: a tenth of
    their size, which the browser unpacks when the page opens.
    """
    page_texts = _texts(explorer, texts)
    answers: dict[str, Any] = {}
    for text in page_texts:
        for call, question in _questions(explorer, text):
            answers[key_of(call, question)] = _answer(explorer, call, question)
    return _whole(
        {**explorer.about(), "texts": page_texts, "answers": packed(answers), "gold": None}
    )


def packed(answers: Mapping[str, Any]) -> str:
    """Return `answers` as JSON in gzip in base64, the same bytes for the same answers.

    >>> packed({}) == packed({})
    True
    """
    written = json.dumps(answers, ensure_ascii=False).encode("utf-8", "replace")
    return base64.b64encode(gzip.compress(written, mtime=0)).decode()


def framed_page(explorer: Explorer, texts: Sequence[str]) -> str:
    """Return the page for a frame whose holder answers its questions; it asks no server."""
    page_texts = _texts(explorer, texts)
    return _whole({**explorer.about(), "texts": page_texts, "answers": None, "framed": True})


def _whole(data: Mapping[str, Any]) -> str:
    """The page with its style and script in it."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        *COMMON, f"script-src {_hash(script)}",
        f"style-src {_hash(style)} {_hash(drawing_asset('graph.css'))}",
    )  # fmt: skip
    meta = f'<meta http-equiv="Content-Security-Policy" content="{safe("; ".join(policy))}">'
    return _page(f"{meta}<style>{style}</style>", data, f"<script>{script}</script>")


def refuse_page(path: Path, *, force: bool, inputs: Iterable[Path]) -> None:
    """Raise before anything is read for a name that no page can have, or another's file."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"{path}: the page is one file of HTML; choose a name in .html")
    refuse_file(path, force=force or is_kept_page(path), inputs=inputs)


def key_of(call: str, question: Question) -> str:
    """Return the name under which the page looks up an answer that it carries.

    >>> key_of("read", Question("Paris.", "kbert"))
    'read|kbert|Paris.'
    """
    return f"{call}|{question.reader}|{question.text}"


def targets_of(links: Iterable[Mapping[str, Any]], n_targets: int) -> tuple[tuple[int, int], ...]:
    """Return the stretches asked about unless a person says otherwise: the first mentions."""
    places = [(int(link["start"]), int(link["end"])) for link in links]
    return tuple(places[:n_targets])


def _questions(explorer: Explorer, text: str) -> Iterable[tuple[str, Question]]:
    yield "link", Question(text)
    links = explorer.link(Question(text))["links"]
    for reader in explorer.readers:
        targets = targets_of(links, reader.n_targets)
        yield "read", Question(text, reader.key, targets=targets)
        if reader.predictor is not None:
            yield "used", Question(text, reader.key, targets=targets)


def _answer(explorer: Explorer, call: str, question: Question) -> dict[str, Any]:
    """What a server would answer; an error is an answer, too."""
    try:
        reply: dict[str, Any] = getattr(explorer, call)(question)
    except KeptError as error:
        return {"error": str(error)}
    return reply


def _texts(explorer: Explorer, texts: Sequence[str]) -> list[str]:
    return [text for text in texts if 0 < len(text) <= MAX_TEXT] or [explorer.example()]


def _page(style: str, data: Mapping[str, Any], script: str) -> str:
    written = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    parts = {"style": style, "data": written, "script": script}
    return _SLOT.sub(lambda match: parts[match[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
