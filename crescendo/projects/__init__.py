"""New projects: a folder with a run file, a private one, a model, a policy and a README that work at once."""
