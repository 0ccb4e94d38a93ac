"""From a run folder to one self-contained HTML file."""

from newkinds.report.page import write_report

__all__ = ["write_report"]
