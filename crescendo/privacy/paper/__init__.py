"""The paper's theorems and procedures as printed, for comparison."""
