"""Seeds that failed once, and what they showed. They run for ever; a seed stands for its schedule as it is drawn today."""

KEPT: dict[int, str] = {
    110: "an aggregator that has ended with the run is not there for a client that was killed as it heard the end",
    3278: "the same",
    20188: "a segment whose creation was interrupted counted as one that was pruned",
}
