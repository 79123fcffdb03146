"""The audit of anybody's mechanism: releases in, a lower bound on epsilon out."""
