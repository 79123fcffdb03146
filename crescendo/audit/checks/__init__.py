"""The statistical checks, one statistic a file. The order is that of the report."""

from __future__ import annotations

from crescendo.audit.check import Check
from crescendo.audit.checks.draws import draw_overlaps, draw_rates, draw_records, draw_tags
from crescendo.audit.checks.noise import (
    low_bits,
    noise_coordinates,
    noise_draws,
    noise_lengths,
    noise_magnitudes,
    noise_places,
    noise_repeats,
    noise_rounds,
    noise_runs,
    noise_scale,
    noise_shape,
    noise_shifts,
    noise_signal,
    noise_tails,
    words,
)

CHECKS: tuple[Check, ...] = (
    noise_scale.CHECK,
    noise_places.COORDINATES,
    noise_places.ROUNDS,
    noise_places.CELLS,
    noise_lengths.CHECK,
    noise_shape.CURVE,
    noise_shape.SHAPE,
    noise_tails.CHECK,
    noise_rounds.CHECK,
    noise_coordinates.CHECK,
    noise_runs.CHECK,
    noise_magnitudes.CHECK,
    noise_shifts.CHECK,
    noise_repeats.CHECK,
    noise_draws.SIZES,
    noise_draws.SIZE_TAILS,
    noise_draws.RECORDS,
    noise_draws.COUNTS,
    noise_draws.TAGS,
    noise_signal.CHECK,
    low_bits.CHECK,
    words.BITS,
    words.REPEATS,
    draw_rates.RATES,
    draw_rates.COUNTS,
    draw_rates.ENDS,
    draw_records.CHECK,
    draw_overlaps.CHECK,
    draw_tags.TAGS,
    draw_tags.REPEATS,
)
