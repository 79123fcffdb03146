"""A trained model for others: as an ONNX file, and with a card that says what it is."""
