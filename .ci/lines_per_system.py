"""Essential lines per system: code without blank lines, comments and docstrings, tests left out.

    python .ci/lines_per_system.py

Prints the table of docs/decisions/0023-lines-per-system.md.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Mapping
from pathlib import Path

KEPT = Path(__file__).parents[1] / "kept"
AIM = 450
SYSTEMS: Mapping[str, tuple[str, ...]] = {
    "E-BERT": ("encoders/ebert.py", "graphs/views/ebert.py", "layers/vector_map.py"),
    "E-BERT's linking": ("heads/candidates.py", "training/finetuning/linking"),
    "WKLM": ("encoders/wklm.py", "objectives/mentions/replacement.py",
             "objectives/mentions/truth.py", "lab/probing/models/truth.py"),
    "LIBERT": ("encoders/lexical/libert.py", "objectives/lexical/relations.py",
               "objectives/lexical/terms.py"),
    "SenseBERT": ("encoders/lexical/sensebert.py", "graphs/views/senses.py",
                  "objectives/lexical/senses.py"),
    "SentiLARE": ("encoders/lexical/sentilare.py", "graphs/views/sentilare.py",
                  "graphs/sentiment.py", "objectives/lexical/sentiment.py"),
    "KT-NET": ("encoders/ktnet.py", "graphs/views/ktnet.py"),
    "BERT-MK": ("kge/gnn/bertmk.py",),
    "Wikipedia2Vec": ("joint/wikipedia2vec.py", "joint/skip_gram.py"),
    "Wang 2014, Zhong 2015": ("joint/wang2014.py", "joint/zhong2015.py", "joint/by_distance.py",
                              "joint/likelihood.py"),
    "Xu 2017": ("joint/xu2017.py",),
    "replaced words (ELECTRA)": ("objectives/replaced_words.py",),
    "PALs": ("adapters/pals.py",),
    "self-ensemble, self-distillation": ("training/averaging.py",),
    "span extraction": ("heads/span.py", "training/finetuning/windows.py"),
    "layer probes": ("lab/probing/layers",),
}  # fmt: skip
"""By system, the files and folders below `kept` that no other system needs."""


def essential_lines(source: str) -> int:
    """How many lines of a module hold code.

    >>> essential_lines('"About."\\nx = 1  # one\\n# two\\n\\ndef f():\\n    return x\\n')
    3
    """
    tree = ast.parse(source)
    texts: set[int] = set()
    for node in ast.walk(tree):
        said = node.value if isinstance(node, ast.Expr) else None
        if isinstance(said, ast.Constant) and isinstance(said.value, str):
            texts |= set(range(said.lineno, (said.end_lineno or said.lineno) + 1))
    nothing = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
               tokenize.ENCODING, tokenize.ENDMARKER}  # fmt: skip
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in nothing:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - texts)


def counts() -> dict[str, dict[str, int]]:
    """By system and file, essential lines."""
    found: dict[str, dict[str, int]] = {}
    for system, places in SYSTEMS.items():
        files = [
            file
            for place in places
            for file in (sorted((KEPT / place).rglob("*.py")) if (KEPT / place).is_dir()
                         else [KEPT / place])
        ]  # fmt: skip
        found[system] = {
            str(file.relative_to(KEPT)): essential_lines(file.read_text(encoding="utf-8"))
            for file in files
        }
    return found


def table(found: Mapping[str, Mapping[str, int]]) -> str:
    """One row for each system, the most lines last."""
    lines = ["| system | essential lines | files |", "|---|---|---|"]
    for system, files in sorted(found.items(), key=lambda item: sum(item[1].values())):
        parts = ", ".join(f"{name} {n}" for name, n in files.items() if n)
        lines.append(f"| {system} | {sum(files.values())} | {parts} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(counts()))
