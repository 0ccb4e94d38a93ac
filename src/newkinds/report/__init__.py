"""From run folders to self-contained HTML pages, without PyTorch."""

from newkinds.report.page import make_report, write_report, write_report_if_possible

__all__ = ["make_report", "write_report", "write_report_if_possible"]
