"""Translation of the [timing] section of a run file into the simulator's clocks."""

from typing import Any

from crescendo.config.schema import Config, Listed
from crescendo.core.random import Purpose, stream
from crescendo.core.terms import Terms
from crescendo.errors import ConfigError
from crescendo.federation.kind_tables import made
from crescendo.simulator import timing as clocks

_SPEED_ROUND = 2**62  # no round reaches this counter, so a client's speed is drawn from a separate stream


def clocks_of(config: Config, terms: Terms) -> clocks.Timing:
    """Return the preset's clocks, with the values that the run file states in place of the preset's."""
    asked, base = config.timing, clocks.Timing.preset(config.timing.preset, terms)
    crash = asked.crash
    return clocks.Timing(
        speeds=_speeds(asked.speed, config.run.seed, terms.clients) or base.speeds,
        starts=base.starts,
        latency=made(clocks.TIMES, asked.latency, "timing.latency") if asked.latency is not None else base.latency,
        duplicate=asked.duplicate,
        lose=asked.lose,
        resend=asked.resend,
        crashes=clocks.Crashes(crash.every, crash.down) if crash is not None else None,
        absent_after=asked.absent_after,
    )


def _speeds(asked: Any, seed: int, clients: int) -> tuple[float, ...] | None:
    if asked is None:
        return None
    if isinstance(asked, Listed):
        if len(asked.values) != clients:
            raise ConfigError(f"timing.speed has {len(asked.values)} values for {clients} clients; give one per client")
        return asked.values
    drawn = made(clocks.TIMES, asked, "timing.speed")
    if isinstance(drawn, clocks.Constant):
        return (drawn.value,) * clients
    draws = (drawn.draw(stream(seed, Purpose.TIMING, c, _SPEED_ROUND)) for c in range(clients))
    return tuple(min(max(draw, clocks.SLOWEST), clocks.FASTEST) for draw in draws)  # a speed of 0 would never end
