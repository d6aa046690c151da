"""The README's picture, from what `kept demo` wrote: one answer before and after a fact is edited.

python .ci/decision.py runs/demo docs/decision.svg
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

WIDTH, BAR, ROW, LEFT, TOP = 880, 205, 25, 112, 128
STYLE = """
text { font: 14px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1b1f24; }
.paper { fill: #fff; } .soft { fill: #57606a; } .title { font-size: 16px; font-weight: 600; }
.bar { fill: #c8d1da; } .first { fill: #0072b2; } .fact { fill: #fdebc8; stroke: #b87400; }
.strong { font-weight: 700; } .right { text-anchor: end; } .middle { text-anchor: middle; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #14181d; } text { fill: #e6edf3; } .soft { fill: #9da7b1; } .bar { fill: #3b4550; }
  .first { fill: #3ba3e8; } .fact { fill: #4a3a17; stroke: #d9a441; } }
"""


def changes_in(demo: Path) -> dict[str, Any]:
    """The edit of the demo's first model: explanations before and after."""
    for path in sorted((demo / "private").glob("*.json")):
        changes = json.loads(path.read_text(encoding="utf-8"))["changes"]
        if changes is not None:
            found: dict[str, Any] = changes["edited"]
            return found
    raise SystemExit(f"{demo}/private holds no edit: run kept demo -o {demo} first")


def deciding_fact(explanation: dict[str, Any]) -> str:
    """The fact whose absence moves the answer most."""
    facts = [one for one in explanation["influences"] if one["kind"] == "fact"]
    return str(max(facts, key=lambda one: abs(one["change"]))["what"])


def panel(explanation: dict[str, Any], names: list[str], left: int, title: str) -> list[str]:
    """One state of the graph: its fact, and the scores of the classes."""
    fact = escape(deciding_fact(explanation))
    shapes = [
        f'<text class="soft" x="{left}" y="64">{escape(title)}</text>',
        f'<rect class="fact" x="{left}" y="74" width="380" height="32" rx="6"/>',
        f'<text class="strong" x="{left + 12}" y="95">{fact}</text>',
    ]
    for row, name in enumerate(names):
        score, y = explanation["scores"][name], TOP + row * ROW
        is_first = name == explanation["label"]
        kind, weight = ("first", "strong") if is_first else ("bar", "")
        start, length = left + LEFT, max(score * BAR, 1)
        label = f'<text class="right {weight}" x="{start - 8}" y="{y + 14}">{escape(name)}</text>'
        bar = f'<rect class="{kind}" x="{start}" y="{y}" width="{length:.1f}" height="18" rx="3"/>'
        number = f'<text class="{weight}" x="{start + length + 6:.1f}" y="{y + 14}">'
        shapes += [label, bar, f"{number}{score:.2f}</text>"]
    return shapes


def picture(edited: dict[str, Any]) -> str:
    """The SVG: both panels beside each other."""
    before, after = edited["before"], edited["after"]
    names = sorted(before["scores"], key=lambda n: -before["scores"][n] - after["scores"][n])
    height = TOP + len(names) * ROW + 40
    says = (
        f"{before['text']} With the fact “{deciding_fact(before)}” the answer is "
        f"{before['label']}; with “{deciding_fact(after)}” it is {after['label']}. Nothing was "
        "trained in between."
    )
    shapes = [
        *panel(before, names, 30, "the graph says"),
        *panel(after, names, 470, "one fact edited, nothing trained"),
    ]
    text, person = escape(before["text"]), escape(deciding_fact(before).partition(" — ")[0])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="t d" '
        f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
        f'<title id="t">A decision changes when a fact changes</title><desc id="d">{escape(says)}'
        f"</desc><style>{STYLE}</style>"
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>'
        f'<text class="title" x="30" y="34">“{text}” What does {person} work as?</text>'
        + "".join(shapes)
        + f'<text class="soft" x="30" y="{height - 14}">All {edited["n"]} people edited so: '
        f"{edited['new']:.1%} of the answers follow the graph, {edited['old']:.1%} stay. "
        "Scores of the demo’s first model.</text></svg>\n"
    )


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(picture(changes_in(Path(sys.argv[1]))), encoding="utf-8")
