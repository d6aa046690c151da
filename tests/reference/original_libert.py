"""LIBERT's released preparation where it differs from ours (Lauscher et al. 2019)."""

from __future__ import annotations


def clean_constraint(term: str) -> str:
    """The first "en_" goes wherever it stands: "Rhoen_oak" becomes "rhooak"."""
    return term.replace("en_", "", 1).replace("_", " ").lower().strip()
