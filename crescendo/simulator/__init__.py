"""A federation on a virtual clock: clients that differ in speed, messages that take time, one trace for one seed."""
