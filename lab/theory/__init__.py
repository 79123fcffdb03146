"""The paper's bounds beside runs."""
