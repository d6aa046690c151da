"""One self-contained, offline HTML page: headings, prose, tables, pictures, embedded pages."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its blocks of HTML; make blocks with the functions below."""

    title: str
    blocks: tuple[str, ...]


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The whole document; all text in `title`, `lead` and section titles is escaped."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    links = "".join(f'<a href="#s{i}">{escape(s.title)}</a>' for i, s in enumerate(sections))
    body = "".join(
        f'<h2 id="s{i}">{escape(section.title)}</h2>\n' + "\n".join(section.blocks) + "\n"
        for i, section in enumerate(sections)
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="generator" content="kept">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>\n"
        f'<h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p><nav>{links}</nav>\n'
        f"{body}</body></html>\n"
    )


def is_kept_page(path: Path) -> bool:
    """Whether a file is a page or picture of kept's, which a newer one may replace."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(1000)
    return b'<meta name="generator" content="kept">' in start or b'class="kept graph"' in start


def prose(text: str) -> str:
    """One paragraph, escaped."""
    return f"<p>{escape(text)}</p>"


def verdict(text: str) -> str:
    """A paragraph that states a finding."""
    return f'<p class="verdict">{escape(text)}</p>'


def quoted(mark: str, text: str) -> str:
    """A text that is shown, with a word before it."""
    return f"<blockquote><b>{escape(mark)}</b> {escape(text)}</blockquote>"


def drawing(svg: str) -> str:
    """A drawing of ours, at its own size."""
    return f'<div class="scroll drawn">{svg}</div>'


def code(text: str) -> str:
    """A block of commands or output."""
    return f"<pre>{escape(text)}</pre>"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], caption: str) -> str:
    """A table; every cell is escaped with `str`."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def picture(path: Path, alternative: str) -> str:
    """A PNG, embedded."""
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return f'<img alt="{escape(alternative)}" src="data:image/png;base64,{data}">'


def gallery(pictures: Sequence[tuple[Path, str]]) -> str:
    """PNGs side by side, small, each with its caption."""
    figures = "".join(
        f"<figure>{picture(path, caption)}<figcaption>{escape(caption)}</figcaption></figure>"
        for path, caption in pictures
    )
    return f'<div class="gallery">{figures}</div>'


def embedded_page(html: str, title: str, height: int) -> str:
    """Another self-contained page in a frame, so that its scripts stay its own."""
    return f'<iframe title="{escape(title)}" height="{height}" srcdoc="{escape(html)}"></iframe>'
