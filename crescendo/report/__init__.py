"""A run as an HTML page that fetches nothing from a network: headline, curves, timeline, staleness, savings, certificate.

`Story` is all that a page is made of, as plain data; `page` writes it down, and `write_page` puts it into a run's folder.
"""

from crescendo.report.page import page, write_page
from crescendo.report.story import Story

__all__ = ["Story", "page", "write_page"]
