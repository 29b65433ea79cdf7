"""Write ``docs/gallery.md`` and its pictures from a finished demo: ``python tools/sync_gallery.py [CHECKOUT]``.

A figure becomes a PNG of few colours, a table stays Markdown. Each entry holds two hashes: of the code that draws it,
and of what is shown. ``tests/test_docs.py`` compares both, so that the gallery is never older than the code.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, PngImagePlugin

from beamuq.exhibits import list_of_exhibits
from beamuq.exhibits.exhibit_types import Exhibit
from beamuq.plan.code_inputs import LIST_OF_EXHIBITS, step_sources
from beamuq.study_config import ROOT, Study, load_study

PAGE = ROOT / "docs" / "gallery.md"
PICTURES = ROOT / "docs" / "gallery"
EXPLORER = ROOT / "workflow" / "beamuq" / "explorer"
COLOURS = 64
OTHER_FORMATS = {"html_table.py", "latex_table.py", "latex_escape.py"}  # which the page does not show
ENTRY = re.compile(r"^<!-- exhibit: (\S+) code=(\w+) shown=(\w+) -->\n(.*?)(?=^<!-- exhibit|^## |\Z)", re.M | re.S)
TITLES = {False: "In the paper", True: "Beyond the paper"}
OPENING = """# Gallery

What `make demo` draws, as it draws it. The demo asks a small model, in two ways, 12 to 16 questions a dataset, written
for this project and chosen, after it had answered all 40, so that about half of its answers are right; proxies judge
them. Its numbers show that the workflow works and are no results of the paper. `make gallery` writes this page anew
from a finished demo.
"""


def demo() -> Study:
    """The demo study."""
    return load_study(ROOT / "studies" / "demo.yaml")


def code_hash(exhibit: Exhibit | None) -> str:
    """A hash of the code that draws an exhibit, without comments and docstrings; None: the explorer.

    That is its entry in the list of exhibits, its builder's module and what that imports of ``beamuq.exhibits``.
    """
    if exhibit is None:
        return _hash("\n".join(_statements(path) for path in sorted(EXPLORER.glob("*.*"))).encode())
    sources = [path for path in step_sources(exhibit.kind, exhibit.module) if path.parent.name == "exhibits"]
    texts = [_statements(path) for path in sources if path != LIST_OF_EXHIBITS and path.name not in OTHER_FORMATS]
    return _hash("\n".join([_entry(exhibit.label), *texts]).encode())


def _statements(path: Path) -> str:
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return source
    told: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            told.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = [line.rstrip() for number, line in enumerate(source.splitlines(), 1) if number not in told]
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def _entry(label: str) -> str:
    """How the list of exhibits calls its builder; "" for one that comes by the study's models or datasets."""
    source = LIST_OF_EXHIBITS.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args and ast.get_source_segment(source, node.args[0]) == f'"{label}"':
            return ast.get_source_segment(source, node) or ""
    return ""


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def shown_hash(label: str, text: str) -> str:
    """A hash of what an entry shows: its text, and its picture if it has one."""
    picture = PICTURES / f"{label}.png"
    return _hash(text.strip().encode() + (picture.read_bytes() if picture.is_file() else b""))


def _explorer(folder: Path) -> str:
    page = folder / "results" / "demo" / "explorer.html"
    if not page.is_file() or not (browser := shutil.which("chromium")):
        raise FileNotFoundError(0, "", f"{page}, or chromium for its picture")
    with tempfile.TemporaryDirectory() as home:
        picture = Path(home, "explorer.png")
        command = [browser, "--headless", "--no-sandbox", "--hide-scrollbars", f"--user-data-dir={home}"]
        # the page unpacks its data after it is loaded: without the budget the picture may come before
        command += ["--virtual-time-budget=4000", "--window-size=1200,840", f"--screenshot={picture}"]
        command += [page.resolve().as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        _few_colours(Image.open(picture), "[demo] A question of the demo in the explorer", PICTURES / picture.name)
    return "![demo: a question of the demo in the explorer](gallery/explorer.png)"


def _figure(exhibit: Exhibit, folder: Path) -> str:
    source = folder / "figures" / "demo" / f"{exhibit.label}.png"
    image = Image.open(source)
    _few_colours(image, image.info["Title"], PICTURES / source.name)
    title = image.info["Title"].replace("[", "").replace("]", "")
    caption = re.sub(r"([\\`*_\[\]<>|])", r"\\\1", source.with_suffix(".txt").read_text(encoding="utf-8").strip())
    return f"![{title}](gallery/{source.name})\n\n{_folded('Caption', caption)}"


def _few_colours(image: Image.Image, title: str, target: Path) -> None:
    told = PngImagePlugin.PngInfo()
    told.add_text("Title", title)
    flat = Image.new("RGB", image.size, "white")
    flat.paste(image, mask=image.getchannel("A") if image.mode == "RGBA" else None)
    written = io.BytesIO()
    flat.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        written, "PNG", optimize=True, pnginfo=told
    )
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(written.getvalue())


def _table(exhibit: Exhibit, folder: Path) -> str:
    text = (folder / "results" / "demo" / "tables" / f"{exhibit.label}.md").read_text(encoding="utf-8")
    title, _, rest = text.partition("\n")
    return f"{title.lstrip('# ')}\n\n{_folded('Table', rest.strip())}"


def _folded(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    study = demo()
    before = {found[1]: found[0] for found in ENTRY.finditer(_page())}
    missing, parts = [], [OPENING]
    exhibits = [list_of_exhibits.exhibit(label, study) for label in study.exhibits]
    exhibits.sort(key=lambda item: item.kind)  # figures first
    sections: dict[str, list[Exhibit | None]] = {
        title: [item for item in exhibits if item.beyond_paper is beyond] for beyond, title in TITLES.items()
    }
    for title, items in (sections | {"Question by question": [None]}).items():
        parts.append(f"## {title}\n")
        for exhibit in items:
            label = exhibit.label if exhibit else EXPLORER.name
            try:
                shown = _shown(exhibit, folder)
            except FileNotFoundError as error:
                missing.append(str(error.filename))
                parts += [before[label]] if label in before else []
                continue
            text = f"### {label}\n\n{shown}\n"
            parts.append(f"<!-- exhibit: {label} code={code_hash(exhibit)} shown={shown_hash(label, text)} -->\n{text}")
    PAGE.write_text("\n".join(part.strip() + "\n" for part in parts), encoding="utf-8")
    if missing:
        sys.exit(f"not there, so kept as it was or left out: {', '.join(missing)}; run make demo")


def _shown(exhibit: Exhibit | None, folder: Path) -> str:
    if exhibit is None:
        return _explorer(folder)
    return (_figure if exhibit.kind == "figure" else _table)(exhibit, folder)


def _page() -> str:
    return PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""


if __name__ == "__main__":
    main()
