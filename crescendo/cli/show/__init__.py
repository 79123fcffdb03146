"""What the commands print for people: tables, sentences and progress bars."""
