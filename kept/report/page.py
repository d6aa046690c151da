"""One self-contained, offline HTML page: headings, prose, tables, pictures, embedded pages."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

STYLE = """
:root { --ink:#1b1f24; --soft:#57606a; --line:#d8dee4; --accent:#0072b2; --paper:#ffffff; }
* { box-sizing: border-box; }
body { margin:0 auto; padding:2.5rem 1.25rem 5rem; max-width:62rem; color:var(--ink);
  background:var(--paper); font:16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size:1.9rem; line-height:1.2; margin:0 0 .4rem; }
h2 { font-size:1.25rem; margin:2.8rem 0 .5rem; padding-top:.6rem; border-top:2px solid var(--line); }
p { max-width:46rem; margin:.5rem 0; } .lead { font-size:1.1rem; color:var(--soft); }
nav a { margin-right:1rem; color:var(--accent); }
.scroll { overflow-x:auto; }
table { border-collapse:collapse; margin:.8rem 0; font-variant-numeric:tabular-nums; }
caption { text-align:left; color:var(--soft); padding-bottom:.4rem; }
th, td { text-align:right; padding:.35rem .8rem; border-bottom:1px solid var(--line); white-space:nowrap; }
th:first-child, td:first-child { text-align:left; }
thead th { border-bottom:2px solid var(--ink); }
img { max-width:100%; height:auto; }
iframe { width:100%; border:1px solid var(--line); border-radius:6px; }
pre { background:#f6f8fa; padding:.8rem 1rem; overflow-x:auto; border-radius:6px; }
.verdict { border-left:4px solid var(--accent); padding:.3rem .9rem; background:#f0f6fb; }
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its blocks of HTML; make blocks with the functions below."""

    title: str
    blocks: tuple[str, ...]


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The whole document; all text in `title`, `lead` and section titles is escaped."""
    links = "".join(f'<a href="#s{i}">{escape(s.title)}</a>' for i, s in enumerate(sections))
    body = "".join(
        f'<h2 id="s{i}">{escape(section.title)}</h2>\n' + "\n".join(section.blocks) + "\n"
        for i, section in enumerate(sections)
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n"
        f'<h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p><nav>{links}</nav>\n'
        f"{body}</body></html>\n"
    )


def prose(text: str) -> str:
    """One paragraph, escaped."""
    return f"<p>{escape(text)}</p>"


def verdict(text: str) -> str:
    """A paragraph that states a finding."""
    return f'<p class="verdict">{escape(text)}</p>'


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


def embedded_page(html: str, title: str, height: int) -> str:
    """Another self-contained page in a frame, so that its scripts stay its own."""
    return f'<iframe title="{escape(title)}" height="{height}" srcdoc="{escape(html)}"></iframe>'
