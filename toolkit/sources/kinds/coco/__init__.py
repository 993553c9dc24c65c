"""COCO annotations: a JSON file of images, annotations and categories, and the pictures that it names."""
