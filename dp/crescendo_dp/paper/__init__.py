"""The theorems of the paper, by the names that it gives them, and its parameter selection."""
