"""Write the sources of the docs site: the pages by kind, links that hold there, pages of the API.

    python .ci/site.py OUT && zensical build --config-file OUT/zensical.toml

The pages of `docs/` and `experiments/` link each other, modules and tests as files of the
repository. A link to a file that has no page on the site becomes plain text. The first page is a
tutorial. Pages of the API are by subject and have what is public: the names in `__all__` of `kept`,
`kg_loaders` and `entity_linking`; the options of every command come from the command line itself.
Raises `SystemExit` for a link to a file that is not there.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE")
FOLDERS = ("docs", "experiments")
COPIED = (".md", ".png", ".svg", ".html", ".csv", ".json")
LINK = re.compile(r"(!?)\[((?:[^][]|\[[^][]*\])*)\]\(([^)\s]+)\)")
FIRST = Path("docs/tutorials/private-graph.md")
"""The page that opens the site."""
OVERVIEW = Path("README.md")
TUTORIALS = (
    "private-graph",
    "ask-your-graph",
    "complete-a-graph",
    "fine-tune-a-method",
    "compare-methods",
    "probe-a-model",
    "linking-you-can-trust",
    "add-a-method",
)
KINDS = (
    ("Tutorials", "docs/tutorials/"),
    ("How-to guides", "docs/how-to/"),
    ("Reference", "docs/reference/"),
    ("Explanations", "docs/explanations/"),
    ("Results", "docs/results/"),
    ("Experiments", "experiments/"),
    ("Decisions", "docs/decisions/"),
)
"""The menu, after the API: a title, and the folder whose pages it has."""
SUBJECTS = {
    "graphs": ("Graphs", "kg_loaders", ()),
    "kept-graphs": (
        "Graphs in and out",
        "kept",
        ("Entity", "KnowledgeGraph", "atlas", "kg_to_dgl", "kg_to_networkx", "kg_to_pandas",
         "kg_to_pyg", "open"),
    ),
    "links": ("Links", "entity_linking", ()),
    "texts": (
        "Texts with knowledge",
        "kept",
        ("BuilderConfig", "DictionaryLinker", "KnowledgeBatch", "LinkedText", "build",
         "colake_view", "draw_html", "explore", "link", "show"),
    ),
    "models": (
        "Models",
        "kept",
        ("AutoEncoder", "CoLAKE", "KnowledgeForPreTraining", "KnowledgeOutput", "Predictor",
         "Result", "generator", "load_host", "load_tokenizer", "question"),
    ),
    "commands": (
        "Commands as functions",
        "kept",
        ("ask", "compare", "complete", "finetune", "fit", "predict", "pretrain", "probe"),
    ),
}  # fmt: skip
"""A page of the API by its name: title, package, and its public names; () for all of them."""


STYLE = """\
.language-text pre > code {
  background: transparent;
  border-left: 3px solid var(--md-default-fg-color--lighter);
  border-radius: 0;
}
"""
"""What commands and programs print has a line at its left, and no ground."""


def public_names(page: str) -> list[str]:
    """Return the names on a page of the API."""
    _, package, names = SUBJECTS[page]
    return sorted(names or import_module(package).__all__)


def api_page(page: str) -> str:
    """Return the text of a page of the API; mkdocstrings fills in all but commands."""
    title, package, _ = SUBJECTS[page]
    parts = [f"# {title}\n\nPublic names of `{package}`.\n"]
    stubs = (ROOT / "kept/apps/commands.pyi").read_text(encoding="utf-8")
    shapes = {
        node.name: node for node in ast.parse(stubs).body if isinstance(node, ast.FunctionDef)
    }
    for name in public_names(page):
        if page != "commands":
            parts.append(f"::: {package}.{name}\n")
            continue
        shape = ast.get_source_segment(stubs, shapes[name])
        text = inspect.cleandoc(getattr(import_module(package), name).__doc__ or "")
        parts.append(f"## {name}\n\n```python\n{shape}\n```\n\n{described(text)}\n")
    return "\n".join(parts)


def described(text: str) -> str:
    """Return the docstring of a command as Markdown: its arguments are a list."""
    about, _, arguments = text.partition("\nArguments:\n")
    lines = [line.strip().partition(": ") for line in arguments.splitlines() if line.strip()]
    listed = "\n".join(f"- `{name}`: {help_text}" for name, _, help_text in lines)
    return f"{about}\n\n{listed}"


def options_page() -> str:
    """Return the help of every command, as the command line prints it."""
    import typer
    from typer.testing import CliRunner

    from kept.apps.cli import app

    os.environ["COLUMNS"] = "100"
    parts = ["# Commands and their options\n\nWhat `--help` prints, for every command.\n"]

    def visit(command: object, words: list[str]) -> None:
        printed = CliRunner().invoke(app, [*words, "--help"]).output.strip()
        if words:
            parts.append(f"## kept {' '.join(words)}\n\n```text\n{printed}\n```\n")
        for name, below in sorted(getattr(command, "commands", {}).items()):
            if not below.hidden:
                visit(below, [*words, name])

    visit(typer.main.get_command(app), [])
    return "\n".join(parts)


def main(out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    source = out / "source"
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
        target = source / on_site(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = (ROOT / path).read_text(encoding="utf-8")
            target.write_text(linked(text, path, here, faults), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / path, target)
    if faults:
        raise SystemExit("links that lead nowhere:\n" + "\n".join(faults))
    (source / "site.css").write_text(STYLE, encoding="utf-8")
    (source / "api").mkdir()
    for name in SUBJECTS:
        (source / "api" / f"{name}.md").write_text(api_page(name), encoding="utf-8")
    (source / "api" / "options.md").write_text(options_page(), encoding="utf-8")
    (out / "zensical.toml").write_text(settings(sorted(here)), encoding="utf-8")


def on_site(path: Path) -> Path:
    """Return where a file of the repository is on the site."""
    return {FIRST: Path("index.md"), OVERVIEW: Path("overview.md")}.get(path, path)


def linked(text: str, page: Path, here: set[Path], faults: list[str]) -> str:
    """Return the page with links that hold on the site; code stays as it is."""
    up = "../" * (len(on_site(page).parts) - 1)

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
            path = path / "README.md"
        if path not in here:
            return words
        return f"{image}[{words}]({up}{on_site(path).as_posix()}{'#' + anchor if anchor else ''})"

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


def menu(pages: list[Path]) -> list[tuple[str, list[str]]]:
    """Return the entries of the menu: a title and its pages; every page is in one of them."""
    rest = [path.as_posix() for path in pages if path.suffix == ".md"]
    groups = []
    for title, folder in KINDS:
        chosen = [name for name in rest if name.startswith(folder)]
        if title == "Tutorials":
            chosen.sort(key=lambda name: TUTORIALS.index(Path(name).stem))
        rest = [name for name in rest if name not in chosen]
        groups.append((title, [on_site(Path(name)).as_posix() for name in chosen]))
    reference = next(names for title, names in groups if title == "Reference")
    reference.append("api/options.md")
    groups.insert(3, ("API", [f"api/{name}.md" for name in SUBJECTS]))
    groups.append(("About", [on_site(Path(name)).as_posix() for name in rest]))
    return groups


def settings(pages: list[Path]) -> str:
    """The site's configuration: theme, menu, API handler."""
    lines = []
    for title, names in menu(pages):
        inside = ", ".join(f'"{name}"' for name in names)
        lines.append(f'  {{"{title}" = [{inside}]}},')
    return "\n".join(
        [
            "[project]",
            'site_name = "kept"',
            'site_description = "Knowledge graphs in pre-trained language models"',
            'docs_dir = "source"',
            'site_dir = "site"',
            "use_directory_urls = false",
            'extra_css = ["site.css"]',
            "nav = [",
            *lines,
            "]",
            "[project.theme]",
            'variant = "modern"',
            "font = false",
            'features = ["navigation.tabs", "content.code.copy"]',
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
            "show_root_heading = true",
            "heading_level = 2",
            "show_source = false",
            'members_order = "source"',
            "[project.markdown_extensions.tables]",
            "[project.markdown_extensions.toc]",
            "permalink = true",
            "[project.markdown_extensions.pymdownx.highlight]",
            "pygments_lang_class = true",
            "[project.markdown_extensions.pymdownx.superfences]",
            "",
        ]
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
