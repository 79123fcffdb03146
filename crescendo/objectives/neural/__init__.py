"""Neural models: any torch module, by its trainable parameters as one flat vector. Torch loads with the first one."""
