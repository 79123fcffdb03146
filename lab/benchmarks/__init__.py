"""Benchmarks: each checks that two ways agree, then prints the ratio of their speeds."""
