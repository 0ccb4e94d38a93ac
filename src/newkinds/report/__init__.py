"""From run folders to self-contained HTML pages, without PyTorch."""

from newkinds.report.page import make_report, write_report

__all__ = ["make_report", "write_report"]
