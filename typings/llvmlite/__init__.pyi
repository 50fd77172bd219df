# Only what tconv calls, by hand; llvmlite ships no types.
__version__: str
