"""The process that refits a run for a studio: `python -m newkinds.studio.refit_process RUN`.

It gets ready, and begins once there is a line on its standard input. Each line of its standard output is JSON:
progress, and at the end a result or an error.
"""

import json
import os
import sys
import threading
from typing import Any

from newkinds.errors import InputError
from newkinds.runtime import listening

POLITENESS = 5
"""How much the page goes before the refit, as `nice` counts."""


def main(folder: str) -> int:
    """Refit a run when asked to, and tell how it goes."""
    asked = threading.Event()
    threading.Thread(target=follow_studio, args=(asked,), daemon=True).start()
    with_politeness()
    import newkinds.methods.refitting
    import newkinds.runs  # noqa: F401  # with PyTorch, which takes seconds: now rather than when asked
    from newkinds.editing.refitting import refit
    from newkinds.report.comparison import comparison_summary

    asked.wait()
    try:
        with listening(lambda stage, done, total: tell({"stage": stage, "done": done, "total": total})):
            done = refit(folder)
    except (InputError, OSError) as error:
        text = str(error)
        tell({"error": f"{text[:1].upper()}{text[1:]}."})
        return 2
    changes = [change.text for change in done.comparison.changes]
    summary = comparison_summary(done.comparison)
    tell({"result": {"summary": summary, "changes": changes, "seconds": round(done.seconds, 2)}})
    return 0


def tell(content: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def follow_studio(asked: threading.Event) -> None:
    """Wait for what the studio asks; the end of standard input comes with the end of the studio."""
    while os.read(0, 1024):  # past Python's buffer, which Python could not close while a thread waits in it
        asked.set()
    os._exit(1)


def with_politeness() -> None:
    if hasattr(os, "nice"):
        os.nice(POLITENESS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
