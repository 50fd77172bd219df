"""How fast it is: the suite of layers, the peers, one fair race, and its report."""
