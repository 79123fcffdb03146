"""Noisy counts of private records: the only access of a draft to a table, with a limit on the number of histograms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.drafter.draft_certificate import DraftCertificate
from crescendo.errors import UsageError
from crescendo.privacy.mechanisms.gaussian import noised
from crescendo.privacy.mechanisms.noise import Source


class NoisyCounts:
    """Releases at most the certified number of histograms.

    >>> from crescendo.privacy.mechanisms.noise import SeededSource
    >>> made = DraftCertificate(1.0, 1e-6, 5e-7, sigma=4.0, histograms=2, texts=1)
    >>> counts = NoisyCounts(made, SeededSource(7, client=0))
    >>> counts.of_places(np.array([100.0, 0.0])).round(1).tolist()
    [95.4, -7.4]
    >>> known, said = counts.of_places_and_texts(np.array([20.0]), {"Oslo": 100, "Bergen": 3})
    >>> known.round(1).tolist(), {text: round(many, 1) for text, many in said.items()}
    ([22.7], {'Oslo': 91.8})
    >>> counts.of_places(np.array([100.0]))
    Traceback (most recent call last):
    crescendo_dp.errors.UsageError: this draft is certified for 2 histograms, and one more was asked for
    """

    def __init__(self, certificate: DraftCertificate, source: Source) -> None:
        self.certificate, self._source, self._asked = certificate, source, 0
        self._noise, self._threshold = certificate.noise, certificate.threshold

    def of_places(self, counts: Floats) -> Floats:
        """Return noisy counts of the known places, including empty ones."""
        return self.of_places_and_texts(counts, {})[0]

    def of_places_and_texts(self, counts: Floats, said: Mapping[str, int]) -> tuple[Floats, dict[str, float]]:
        """Return one histogram of the known places, and of the texts whose noisy counts pass the threshold."""
        i, self._asked = self._asked, self._asked + 1
        if self._asked > self.certificate.histograms:
            raise UsageError(
                f"this draft is certified for {self.certificate.histograms} histograms, and one more was asked for"
            )

        def more(number: int) -> Iterator[int]:
            return self._source.more(i, number)

        texts = sorted(said)
        true = np.concatenate([counts, np.array([said[text] for text in texts], dtype=np.float64)])
        noisy = noised(true, self._noise, self._source.words(i, len(true)), more)
        passed = zip(texts, noisy[len(counts) :].tolist(), strict=True)
        return noisy[: len(counts)], {text: many for text, many in passed if many > self._threshold}
