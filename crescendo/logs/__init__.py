"""Logs: what happens in a federation, as JSON lines for machines or in words for people.

`log_events` declares every event once: its level, its sentence and what to do about it. `event_log` writes and never holds up
the caller, `words` makes a line for a terminal, and `peer_text` makes what a peer wrote harmless there.
"""

from crescendo.logs.event_log import EventLog, JsonLog, Log, hear_libraries, quiet

__all__ = ["EventLog", "JsonLog", "Log", "hear_libraries", "quiet"]
