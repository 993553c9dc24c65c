"""YOLO as Ultralytics reads it: pictures, a text file of boxes, polygons or keypoints for each, and a data.yaml."""
