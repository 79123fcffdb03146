"""The algorithm as two state machines that do no I/O: a message goes in, a message comes out."""
