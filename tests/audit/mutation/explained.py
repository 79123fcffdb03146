"""Mutants that nothing catches, and why nothing should: by key, what makes the change no bug."""

EXPLAINED: dict[str, str] = {
    f"{module}:{change}": why
    for module, changes in {
        "crescendo.objectives.linear.margin_kernels": {
            "_clipped_with_care another number: 1.0 -> 2.0": (
                "Lengths are taken in this unit so that no square overflows. Any unit from 1 on gives the same clip."
            ),
        },
        "crescendo_dp.planned_events": {
            "PlannedEvents.priced drop a part: (counts > 0) & (self._kinds.which > 0) -> counts > 0": (
                "Rounds that send nothing are left out once more when the events are counted."
            ),
            "PlannedEvents.joined drop a call: kinds.clear() -> nothing": (
                "It frees memory earlier and changes no number."
            ),
        },
        "crescendo.storage.ledger.outbox": {
            "Outbox.drop drop a condition: i in settled and at.seq in kept -> i in settled": (
                "Bytes that are gone are deleted once more, which deletes nothing."
            ),
        },
        "crescendo.worker": {
            "Worker.export drop a condition: self._slots is None or made is None -> made is None": (
                "Nothing was made where there are no slots."
            ),
        },
        "crescendo_dp.directed_rounding": {
            "noise_up drop a term: 4 - math.floor(math.log10(sigma)) -> 4": (
                "A noise multiplier is rounded up to other digits than five, and never down."
            ),
        },
        "crescendo.storage.ledger.ledger_store": {
            "_instance_for drop a bound: :32 -> :": ("A client is known by 256 bits of a keyed hash in place of 128."),
            "_instance_for off by one: 32 -> 31": ("A client is known by 124 bits of a keyed hash in place of 128."),
        },
        "crescendo.drafter.charged_draft": {
            "draft_from swap arguments: request.digest(header, name) -> request.digest(name, header)": (
                "A digest of the same facts under other names: equal requests have equal digests, and others have "
                "others."
            ),
            "charged_draft drop a condition: source or SystemSource() -> SystemSource()": (
                "A source that a test gives is ignored for the operating system's."
            ),
        },
        "crescendo_dp.accounting.privacy_loss": {
            "_log_mass drop a factor: 8 * _U * (1 + np.abs(near)) * (1 + np.exp(far - near) / gap) -> "
            "8 * _U * (1 + np.abs(near))": (
                "A proved allowance for rounding, of some units of the last place of a logarithm. What rounding really does is "
                "smaller in every case that can be computed."
            ),
            "Losses.of another number: 2.001 -> 4.002": (
                "More counts as losing everything, so that epsilon is larger."
            ),
            "_by_quadrature off by one: 4 -> 5": (
                "A larger allowance for rounding: epsilon is larger, by less than anyone prints."
            ),
            "_by_difference another sign: at + still + error + 8 * _U * (1 + np.abs(at) + np.abs(still)) -> "
            "at + still + error - 8 * _U * (1 + np.abs(at) + np.abs(still))": (
                "A proved allowance for rounding. What rounding really does is smaller in every case that can be "
                "computed; the mutant moves a logarithm by a few units of the last place."
            ),
        },
        "crescendo_dp.accounting.tilted_fft": {
            "_crossing another comparison: total <= reached -> total < reached": (
                "Where delta is reached exactly at a point of the grid, the search goes on to where it is "
                "smaller: epsilon is no smaller."
            ),
            "_tilted drop a factor: 8 * _U * np.where(np.isfinite(size), 2 + size, 0) -> 8 * _U": (
                "A proved allowance for rounding. What rounding really does is smaller in every case that can be "
                "computed; the mutant leaves one unit of the last place of it."
            ),
        },
        "crescendo_dp.accounting.renyi": {
            "_terms drop an argument: np.errstate(over='ignore', divide='ignore') -> np.errstate(divide='ignore')": (
                "It only silences a warning about a number that is meant to be infinite."
            ),
            "<module> off by one: 33 -> 32": (
                "One order less to choose the best of. Every order gives an upper bound."
            ),
        },
        "crescendo.drafter.noisy_counts": {
            "NoisyCounts.of_places_and_texts flip a flag: True -> False": (
                "It compares the lengths of two lists, one of which is made from the other."
            ),
            "NoisyCounts.of_places_and_texts another comparison: many > self._threshold -> many >= self._threshold": (
                "The threshold has a whole step of the noise's grid to spare, so that noise alone reaches it no "
                "more often than is counted."
            ),
        },
        "crescendo_dp.accounting.epsilon": {
            "_Composition.result another sign: 1 + 1e-09 -> 1 - 1e-09": (
                "It decides only where two epsilons agree to a billionth, and moves epsilon by no more than that."
            ),
        },
    }.items()
    for change, why in changes.items()
}
