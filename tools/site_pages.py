"""Hooks of MkDocs (mkdocs.yml): pages generated from the package, the project's files, and executed notebooks.

A line `<!-- generated: NAME -->` in a page is replaced by the output of the function of that name in `GENERATED`. The
variable NOTEBOOKS=skip leaves the notebooks unexecuted, for a faster preview.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import click
import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbclient import NotebookClient

from kifu.cli import app
from kifu.cli.app import PANELS, Command
from kifu.planes.registry import DEFINITIONS, definition_table

ROOT = Path(__file__).resolve().parents[1]
PROJECT_FILES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
"""Pages of the site, and the files of the repository that they show."""

log = get_plugin_logger("kifu")


class Notebook(File):  # type: ignore[misc]
    """A notebook, shown as a page."""

    def is_documentation_page(self) -> bool:
        """Return True, so that MkDocs renders the content as Markdown."""
        return True


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the project's files, and turn notebooks into pages."""
    for uri, name in PROJECT_FILES.items():
        text = (ROOT / name).read_text("utf-8").replace("](docs/", "](")
        files.append(File.generated(config, uri, content=text))
    notebooks = [file for file in files if file.src_uri.endswith(".ipynb")]
    with ThreadPoolExecutor(2) as pool:  # most of a notebook's work runs in one thread
        contents = pool.map(notebook_markdown, (Path(config.docs_dir, file.src_uri) for file in notebooks))
        for file, content in zip(notebooks, contents):
            files.remove(file)
            page = Notebook(file.src_uri, config.docs_dir, config.site_dir, config.use_directory_urls)
            page.content_string = content
            files.append(page)
    return files


def on_nav(nav: Any, config: MkDocsConfig, **_: Any) -> None:
    """Warn of public names that the Python reference lacks."""
    import kifu

    pages = "".join(path.read_text("utf-8") for path in Path(config.docs_dir, "reference", "python").glob("*.md"))
    for name in dir(kifu):
        documented = re.search(rf"^::: kifu\.{name}$", pages, re.MULTILINE) or hasattr(kifu.errors, name)
        if not name.startswith("_") and not documented:
            log.warning(f"reference/python does not document kifu.{name}")


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Fill in the generated parts of a page, and warn of command lines that kifu does not accept."""
    if page.file.src_uri != "changelog.md":  # history
        for line in unknown_options(markdown):
            log.warning(f"{page.file.src_uri}: {line}")
    markdown = re.sub(r"\(\S+/recipes/([\w-]+)\.toml\)", r"(#\1)", markdown)  # the site shows them on one page
    return re.sub(r"<!-- generated: (\w+) -->", lambda match: "\n".join(GENERATED[match[1]]()), markdown)


def on_page_content(html: str, page: Page, files: Files, **_: Any) -> str:
    """Link the pages that docstrings name as docs/NAME.md."""

    def link(match: re.Match[str]) -> str:
        file = files.get_file_from_path(match[1])
        if file is None:
            log.warning(f"{page.file.src_uri}: there is no page {match[0]}")
            return match[0]
        return f'<a href="{file.url_relative_to(page.file)}">{match[1].removesuffix(".md")}</a>'

    return re.sub(r"docs/([\w/+-]+\.md)", link, html) if page.file.src_uri.startswith("reference/python/") else html


def unknown_options(markdown: str) -> Iterator[str]:
    """Yield a line for each command or option in a page's text that the command line lacks."""
    known = {name: {option for p in command.params for option in p.opts} for name, command in _commands().items()}
    pattern = r"(?m)(^(?: {4,})?(?:\$ )?|`)kifu ([a-z]+)([^`\n\\]*(?:\\\n[^`\n\\]*)*)"
    for code, name, rest in re.findall(pattern, markdown):
        if name not in known and not code:
            continue  # prose that begins with the name of the program
        if name not in known:
            yield f"there is no command kifu {name}"
            continue
        for option in re.findall(r"(?<!\S)--?[a-z][a-z-]*", re.sub(r"\"[^\"]*\"|'[^']*'|#.*|\| .*", "", rest)):
            if option not in known[name] | {"--help"}:
                yield f"kifu {name} has no option {option}"


def notebook_markdown(path: Path) -> str:
    """Execute a notebook in an empty folder and return it with its outputs as Markdown.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    notebook = nbformat.read(path, as_version=4)
    if any(cell.get("outputs") for cell in notebook.cells):
        log.warning(f"{path} is stored with outputs; clear them")
    if os.environ.get("NOTEBOOKS") != "skip":
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            NotebookClient(
                notebook, timeout=300, resources={"metadata": {"path": folder}}, extra_arguments=["--log-level=ERROR"]
            ).execute()
        log.info(f"executed {path.name} in {time.perf_counter() - began:.0f} s")
    return "\n\n".join(part for cell in notebook.cells for part in cell_markdown(cell))


def cell_markdown(cell: Any) -> Iterator[str]:
    """Yield the source of a cell, and its outputs."""
    if cell.cell_type == "markdown":
        yield cell.source
        return
    yield fenced(cell.source, "python")
    if printed := "".join(output.text for output in cell.outputs if output.output_type == "stream"):
        yield fenced(printed, "text", "output")
    for output in cell.outputs:
        if output.output_type == "stream":
            continue
        data = output.data
        if "text/html" in data or "image/svg+xml" in data:
            html = data.get("text/html") or data["image/svg+xml"]
            html = re.sub(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->", "", html, flags=re.DOTALL)
            one_line = re.sub(r"\s*\n\s*", " ", html.strip())  # a blank line would end the block
            yield f'<div class="output">{one_line}</div>'
        elif "image/png" in data:
            image = "".join(data["image/png"].split())
            yield f'<div class="output"><img alt="" src="data:image/png;base64,{image}"></div>'
        else:
            yield fenced(data["text/plain"], "text", "output")


def fenced(text: str, language: str, css: str = "") -> str:
    """Return a block of code that may itself contain fences."""
    return f"````{{.{language}{' .' + css if css else ''}}}\n{text.rstrip()}\n````"


def commands() -> Iterator[str]:
    """Yield the reference of the command line."""
    root = click.Context(app, info_name="kifu", show_default=True)
    contexts = {name: click.Context(each, info_name=name, parent=root) for name, each in _commands().items()}
    options = {name: _help_records(context) for name, context in contexts.items()}
    common = [record for record in options["ingest"] if all(record in each for each in options.values())]
    if common:
        yield "All commands take these options:\n"
        yield from _table(common)
    for panel, names in PANELS.items():
        yield f"## {panel}\n"
        for name in names:
            command, context = _commands()[name], contexts[name]
            yield f"### kifu {name}\n\n{command.help}\n"
            yield fenced(f"kifu {name} {' '.join(command.collect_usage_pieces(context))}", "text") + "\n"
            yield from _table([record for record in options[name] if record not in common])
            yield "Examples:\n\n" + fenced("\n".join(command.examples), "sh") + "\n"


def _commands() -> dict[str, Command]:
    found = {name: app.get_command(None, name) for name in app.list_commands(None)}
    return {name: command for name, command in found.items() if command is not None}


def _help_records(context: click.Context) -> list[tuple[str, str]]:
    """Return names and meaning of the arguments and options of a command, as in its help."""
    return [record for each in context.command.params if (record := each.get_help_record(context))]


def _table(records: list[tuple[str, str]]) -> Iterator[str]:
    if records:
        yield "| argument or option | meaning |\n|---|---|"
        for names, meaning in records:
            yield f"| `{names}` | {_cell(meaning)} |"
        yield ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def recipes() -> Iterator[str]:
    """Yield each recipe with its comment."""
    from kifu.assets import config_names
    from kifu.recipes.schema import recipe_text

    for name in config_names("recipes"):
        text = recipe_text(name)
        yield f"## {name}\n"
        yield str(tomllib.loads(text).get("title", "")) + "\n"
        yield fenced(text, "toml") + "\n"


GENERATED: dict[str, Callable[[], Iterable[str]]] = {
    "commands": commands,
    **{f"features_{section}": partial(definition_table, section) for section in DEFINITIONS},
    "recipes": recipes,
}
"""The generated parts of pages, by their names in the pages."""
