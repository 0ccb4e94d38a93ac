"""From a run folder to one self-contained HTML file."""

from newkinds.report.page import render, write_report

__all__ = ["render", "write_report"]
