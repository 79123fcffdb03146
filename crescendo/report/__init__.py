"""Reports of runs and studies: HTML pages that fetch nothing from a network.

A `Story` holds the content of a run's report as plain data; `page` renders it, and `write_page` writes it into the run's folder.
`study_story` and `study_page` do the same for sweeps and comparisons.
"""

from crescendo.report.page import page, write_page
from crescendo.report.story import Story

__all__ = ["Story", "page", "write_page"]
