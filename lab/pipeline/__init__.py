"""The paper's experiments from data to plot, each with the paper's value, ours and the verdict."""
