"""What a deployment installs: pip's resolver is asked, nothing is installed."""
