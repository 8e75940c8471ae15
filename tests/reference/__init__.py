"""The codec once more, in plain NumPy: readable rather than fast, to teach the format and to hold the shaders to."""
