"""A run as one HTML page that opens without a network: headline, curves, timeline, staleness, savings, certificate.

`Story` is all that a page is made of, as plain data; `page` writes it down.
"""

from crescendo.report.page import page
from crescendo.report.story import Lane, Spending, Story

__all__ = ["Lane", "Spending", "Story", "page"]
