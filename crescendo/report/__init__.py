"""Runs and studies as HTML pages that fetch nothing from a network.

`Story` is all that the report of a run is made of, as plain data; `page` writes it down, and `write_page` puts it into a run's
folder. `study_story` and `study_page` do the same for sweeps and comparisons.
"""

from crescendo.report.page import page, write_page
from crescendo.report.story import Story

__all__ = ["Story", "page", "write_page"]
