"""The way from an experiment's jobs to stored findings, figures and the page of results."""
