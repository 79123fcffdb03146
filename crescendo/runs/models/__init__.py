"""Trained models for other programs and people: ONNX files and model cards."""
