"""One output a module, or a folder with its spec.py: toolkit.loader.outputs.registry finds them."""
