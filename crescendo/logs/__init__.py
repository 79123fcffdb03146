"""Logs: the events of a federation, as JSON lines for machines or in words for people.

`log_events` declares every event once: its level, its sentences and the advice for it. `event_log` writes without holding up the
caller, `words` writes lines for a terminal, and `peer_text` makes a peer's text harmless there.
"""

from crescendo.logs.event_log import EventLog, JsonLog, Log, hear_libraries, quiet

__all__ = ["EventLog", "JsonLog", "Log", "hear_libraries", "quiet"]
