"""Write the sources of the docs site: pages as they are, links made whole, a page per module.

    python .ci/site.py OUT && zensical build --config-file OUT/zensical.toml

The pages of `docs/` and `experiments/` link each other, and to modules and tests, as files of the
repository. On the site a module's link leads to its API page; one to a file that has no page there
becomes plain text. Raises `SystemExit` for a link to a file that is not there.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("kept", "kg_loaders", "entity_linking")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE")
FOLDERS = ("docs", "experiments")
COPIED = (".md", ".png", ".svg", ".html", ".csv", ".json")
LINK = re.compile(r"(!?)\[((?:[^][]|\[[^][]*\])*)\]\(([^)\s]+)\)")
EXPLAINED = (
    (
        "Get started",
        (
            "docs/journeys.md",
            "docs/explorer.md",
            "docs/data.md",
            "docs/linking.md",
            "docs/adaptation.md",
            "docs/probing.md",
            "docs/service.md",
            "docs/pains.md",
        ),
    ),
    ("Honest evaluation", ("docs/controls.md", "docs/reading.md", "docs/experiments.md")),
    ("Methods", ("docs/methods.md", "docs/quirks.md", "docs/adding-a-method.md")),
    ("Results", ("docs/results.md",)),
)
"""The menu's first entries, by hand; every other page follows in the group of its folder."""


def modules() -> dict[Path, str]:
    """Public modules of the packages, by file: `kept/graphs/__init__.py` is `kept.graphs`."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            names = parts[:-1] if parts[-1] == "__init__" else parts
            if not any(name.startswith("_") for name in names):
                found[path.relative_to(ROOT)] = ".".join(names)
    return found


def main(out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    source, api = out / "source", modules()
    files = [ROOT / name for name in PAGES]
    files += [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in COPIED
    ]
    here = {path.relative_to(ROOT) for path in files}
    faults: list[str] = []
    for path in sorted(here):
        target = source / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = (ROOT / path).read_text(encoding="utf-8")
            target.write_text(linked(text, path, here, api, faults), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / path, target)
    if faults:
        raise SystemExit("links that lead nowhere:\n" + "\n".join(faults))
    (source / "index.md").write_bytes((source / "README.md").read_bytes())
    (source / "README.md").unlink()
    for name in api.values():
        page = source / "api" / f"{name}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(f"# {name}\n\n::: {name}\n", encoding="utf-8")
    (out / "zensical.toml").write_text(settings(sorted(here), api), encoding="utf-8")


def linked(text: str, page: Path, here: set[Path], api: dict[Path, str], faults: list[str]) -> str:
    """The page with links that hold on the site; code stays as it is."""

    def one(match: re.Match[str]) -> str:
        image, words, target = match.groups()
        place, _, anchor = target.partition("#")
        if "://" in target or not place:
            return match[0]
        path = Path(*_walk((page.parent / place).parts))
        if not (ROOT / path).exists():
            faults.append(f"{page}: {target}")
            return match[0]
        if (ROOT / path).is_dir():
            inside = [path / "README.md", path / "__init__.py"]
            path = next((each for each in inside if each in here or each in api), path)
        up = "../" * (len(page.parts) - 1)
        if path in api:
            return f"[{words}]({up}api/{api[path]}.md)"
        if path not in here:
            return words
        name = "index.md" if path == Path("README.md") else path.as_posix()
        return f"{image}[{words}]({up}{name}{'#' + anchor if anchor else ''})"

    parts = re.split(r"(```.*?```)", text, flags=re.DOTALL)
    return "".join(part if i % 2 else LINK.sub(one, part) for i, part in enumerate(parts))


def _walk(parts: tuple[str, ...]) -> list[str]:
    """The parts of a path without `..`."""
    walked: list[str] = []
    for part in parts:
        if part == "..":
            walked.pop()
        elif part != ".":
            walked.append(part)
    return walked


def settings(pages: list[Path], api: dict[Path, str]) -> str:
    """The site's configuration: theme, menu, API handler."""
    texts = [str(path) for path in pages if path.suffix == ".md" and str(path) != "README.md"]
    by_hand = {name for _, names in EXPLAINED for name in names}
    groups = [(title, list(names)) for title, names in EXPLAINED]
    rest = [name for name in texts if name not in by_hand]
    for title, prefix in (
        ("Systems", "docs/methods/"), ("Guides", "docs/"), ("Experiments", "experiments/"),
    ):  # fmt: skip
        chosen = [n for n in rest if n.startswith(prefix) and "decisions" not in n]
        groups.append((title, chosen))
        rest = [name for name in rest if name not in chosen]
    groups.append(("Decisions", [name for name in rest if "decisions" in name]))
    groups.append(("Project", [name for name in rest if "decisions" not in name]))
    groups.append(("API", [f"api/{name}.md" for name in api.values()]))
    menu = ['  {"Home" = "index.md"},']
    for title, names in groups:
        inside = ", ".join(f'"{name}"' for name in names)
        menu.append(f'  {{"{title}" = [{inside}]}},')
    return "\n".join(
        [
            "[project]",
            'site_name = "kept"',
            'site_description = "Knowledge graphs in pre-trained language models"',
            'docs_dir = "source"',
            'site_dir = "site"',
            "use_directory_urls = false",
            "nav = [",
            *menu,
            "]",
            "[project.theme]",
            'variant = "modern"',
            "font = false",
            'features = ["navigation.tabs", "navigation.indexes", "content.code.copy"]',
            "[[project.theme.palette]]",
            'media = "(prefers-color-scheme: light)"',
            'scheme = "default"',
            "[[project.theme.palette]]",
            'media = "(prefers-color-scheme: dark)"',
            'scheme = "slate"',
            "[project.plugins.mkdocstrings.handlers.python]",
            f'paths = ["{ROOT.as_posix()}"]',
            "inventories = []",
            "[project.plugins.mkdocstrings.handlers.python.options]",
            'docstring_style = "google"',
            f'extensions = ["{(ROOT / ".ci/doctests.py").as_posix()}"]',
            "show_root_heading = false",
            "show_source = false",
            "show_root_toc_entry = false",
            'members_order = "source"',
            "[project.markdown_extensions.tables]",
            "[project.markdown_extensions.toc]",
            "permalink = true",
            "[project.markdown_extensions.pymdownx.highlight]",
            "[project.markdown_extensions.pymdownx.superfences]",
            "",
        ]
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
