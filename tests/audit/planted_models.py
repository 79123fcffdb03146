"""A model with a bug, as the package would run it if the bug were its own."""

from crescendo.objectives.own import OwnModel


class TakenAtItsWord(OwnModel):
    """Believes a model that says it clips by itself, which `OwnModel` does of those of the package alone."""

    @property
    def _clips(self) -> bool:
        return bool(self._model.clips)

    def isolate(self) -> None:
        """Leave the code as it is: the package's own is not isolated either."""
