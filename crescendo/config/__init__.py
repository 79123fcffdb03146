"""The run file: its keys, how it is read and checked, and what terms and arguments it becomes."""
