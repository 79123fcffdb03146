"""The statistical checks: each is one function with one statistic. The order is that of the report."""

from __future__ import annotations

from crescendo.audit.check import Check
from crescendo.audit.checks import (
    bits,
    draw_counts,
    draw_links,
    draws_at_scale,
    noise_and_draws,
    noise_laws,
    noise_links,
)

CHECKS: tuple[Check, ...] = (
    *noise_laws.CHECKS,
    *noise_links.CHECKS,
    *noise_and_draws.CHECKS,
    *bits.CHECKS,
    *draw_counts.CHECKS,
    *draw_links.CHECKS,
    *draws_at_scale.CHECKS,
)
