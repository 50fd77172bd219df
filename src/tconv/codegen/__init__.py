"""Plan steps to LLVM IR; beside each ``emit_x`` stands its NumPy ``x_meaning``."""
