"""Networks of ours, named in a run file by one word: each the same in torch and in JAX, with its weights in the same order."""
