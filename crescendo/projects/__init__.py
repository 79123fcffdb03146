"""New projects: a folder with a run file, a private run file, a model, a policy and a README, ready to run."""
