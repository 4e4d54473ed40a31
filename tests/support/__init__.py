"""What tests share: samples of every primitive, oracles, tolerances, parts of the fuzzers."""
