"""Other packages run tconv through these, one file for each."""
