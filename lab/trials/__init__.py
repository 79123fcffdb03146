"""Measurements that a page of the documentation quotes, each a program."""
