"""The algorithm's core: state machines for server, client and aggregator that do no I/O."""
