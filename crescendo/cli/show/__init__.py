"""Printers of the commands: tables, sentences and progress bars."""
