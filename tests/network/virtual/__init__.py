"""A whole federation in one process, on a virtual clock, over a simulated network and simulated disks.

The server, the aggregators and the clients are the real ones. What lies below them is simulated: time (`clock`), threads that
take turns (`threads`), what reaches a disk (`disk`), and gRPC's streams (`lines`, `streams`). `simulation` puts these in the
place of `crescendo.system` and of gRPC. A `Federation` runs on `machine`s; `schedules` draws what goes wrong from a seed;
`watching` and `checks` say what must hold. `runs` is one run, from its seed to what it broke; `shrink` drops the faults that a
failure does not need. ``python -m tests.network.virtual --help`` explores.
"""
