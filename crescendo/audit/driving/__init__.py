"""Real workers, led through whole runs, with what they should have sent computed beside them."""
