"""Canaries: lower bounds on epsilon from one training run with planted records.

Theory of operation
-------------------
The auditor makes M canaries for one client. For each it tosses a fair coin in secret, and leaves out a canary whose coin shows
tails. After the run it computes a score for each canary from all the releases. It guesses that the highest scores were in and
the lowest were out, abstains on the rest, and counts right guesses. The number of guesses is fixed before the run, from the
certificate.

If the client's run is f-private, the count is bounded, however the canaries' scores depend on each other. Let p_i be the chance
of i right guesses out of g. Toss the coin of one canary, picked at random, once more: a right guess becomes a wrong one, and no
other changes. Let F(x) = 1 - f(x), the largest chance of an event with a record if its chance without is x. F is concave, so

    sum over i >= j of (i / M) p_i   <=   F( sum over i >= j of ((g - i + 1) / M) p_(i-1) )       for every j

(Mahloujifar, Melis, Chaudhuri 2025, after Steinke, Nasr, Jagielski 2023). `guesses` finds the least total probability that
satisfies all of these and has 1 - confidence at the observed count or above. If that is more than 1, the run is not f-private.

`families` are sets of f, ordered from strong to weak privacy. The weakest f that is denied gives the bound on epsilon. Each
canary has a coordinate that no other record has, so in a sound run their scores are independent. `separate_trials` assumes
that, which gives a higher bound. A mechanism that leaks all canaries together or none could break that bound, but not the
bounds by guesses.
"""
