"""The paper's theory beside runs."""
