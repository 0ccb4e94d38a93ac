"""One self-contained HTML page out of data and the front end (`web/`, built into `assets/`).

The page's security policy lets nothing run or load but its own script, style and pictures. Python writes data only;
the script shows it.
"""

import base64
import hashlib
import logging
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from newkinds.report.content import Blocks, report_blocks
from newkinds.run_folder import REPORT_FILE, read_run
from newkinds.runtime import report_progress
from newkinds.staging import Check, accept_existing, staged

logger = logging.getLogger(__name__)

STAGE = "writing the report"


def write_report(
    folder: str | Path, path: Path | None = None, *, with_map: bool = True, replace: Check = accept_existing
) -> Path:
    """Write the report of a run from what its folder holds: by default into the folder, as `report.html`."""
    path = Path(folder) / REPORT_FILE if path is None else path
    page = make_report(Path(folder), with_map=with_map)
    with staged(path, replace=replace) as stage:
        stage.write_bytes(page.encode())  # to the letter: the security policy knows the script by its hash
    return path


def write_report_if_possible(folder: Path, *, with_map: bool = True) -> None:
    """Write the report of a run that was just saved; a fault of the page does not cost the run."""
    try:
        write_report(folder, with_map=with_map)
    except Exception:
        logger.exception("the report could not be written; the run is whole, `newkinds report` tries again")


def make_report(folder: Path, *, with_map: bool = True) -> str:
    """The report of a run as the text of a page; without a map where none is wanted."""
    report_progress(STAGE, 0, 1)
    folder = folder.resolve()
    name = read_run(folder)["source"]["name"]
    page = render(f"{name}: kinds found by Newkinds", report_blocks(folder, with_map=with_map))
    report_progress(STAGE, 1, 1)
    return page


def render(title: str, blocks: Blocks) -> str:
    """A page that shows some blocks of data."""
    here = files("newkinds.report")
    script, style = ((here / "assets" / name).read_text("utf-8") for name in ("page.js", "page.css"))
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(
        (here / "page.html.jinja").read_text("utf-8")
    )
    return template.render(
        title=title,
        blocks=blocks,
        script=Markup(script),
        style=Markup(style),
        script_hash=_hash(script),
        style_hash=_hash(style),
    )


def _hash(text: str) -> str:
    """By which the security policy knows the page's own script and style."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
