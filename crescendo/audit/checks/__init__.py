"""The statistical checks: each is one function with one statistic. The order is that of the report."""

from __future__ import annotations

from crescendo.audit.check import Check
from crescendo.audit.checks import bits, draw_counts, draw_links, noise_and_draws, noise_laws, noise_links

CHECKS: tuple[Check, ...] = (
    Check("noise scale", "too little or too much noise", "noise", noise_laws.scale),
    Check("noise by coordinate", "a coordinate with other noise", "noise", noise_laws.by_coordinate),
    Check("noise by round", "a round with other noise", "noise", noise_laws.by_round),
    Check("noise by cell", "one number with other noise", "noise", noise_laws.by_cell),
    Check("noise lengths", "a release with other noise", "noise", noise_laws.lengths),
    Check("noise curve", "noise that is not Gaussian", "noise", noise_laws.curve),
    Check("noise shape", "gaps and bumps in its density", "noise", noise_laws.shape),
    Check("noise tails", "cut tails, numbers without noise", "noise", noise_laws.tails),
    Check("noise between rounds", "noise used again later", "noise", noise_links.between_rounds),
    Check("noise between coordinates", "coordinates that share noise", "noise", noise_links.between_coordinates),
    Check("noise between runs", "runs or clients that share noise", "noise", noise_links.between_runs),
    Check("noise magnitudes", "shared sizes, whatever the sign", "noise", noise_links.magnitudes),
    Check("noise at other places", "noise used again elsewhere", "noise", noise_links.shifts),
    Check("repeated noise", "a noise number that comes twice", "noise", noise_links.repeats),
    Check("noise by size of draw", "noise that tells how many", "noise", noise_and_draws.by_size),
    Check("tails by size of draw", "cut tails of an empty draw", "noise", noise_and_draws.tails_by_size),
    Check("noise by record", "noise that tells who was drawn", "noise", noise_and_draws.by_record),
    Check("noise and draws", "shared randomness", "noise", noise_and_draws.with_counts),
    Check("noise and tags", "shared randomness", "noise", noise_and_draws.with_tags),
    Check("noise and signal", "noise that knows what it hides", "noise", noise_and_draws.with_signal),
    Check("last bits", "values that betray a record", "noise", bits.last_bits),
    Check("random bits", "bits that are no fair coins", "words", bits.fair_coins),
    Check("repeated words", "a random word that comes twice", "words", bits.repeated_words, exact=False),
    Check("sampling rates", "records drawn too often", "draws", draw_counts.rates),
    Check("sizes of draws", "draws of fixed or linked sizes", "draws", draw_counts.sizes),
    Check("smallest and largest draws", "draws cut, or drawn again", "draws", draw_counts.ends),
    Check("which records", "records drawn unlike others", "draws", draw_counts.which_records),
    Check("common records", "draws that know each other", "draws", draw_links.overlaps),
    Check("tags", "tags unlike uniform numbers", "draws", draw_links.tags),
    Check("repeated tags", "a tag that comes twice", "draws", draw_links.repeated_tags, exact=False),
)
