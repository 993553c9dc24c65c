"""Pipelines: slots that decode and transform columns; data first, checked when built, compiled to native calls."""
