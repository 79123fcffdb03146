"""The laboratory: experiments, contests, trials and benchmarks that test the package's claims, with their stored results."""
