"""Built-in networks, named in a run file by one word: the same in torch and JAX, with weights in the same order."""
