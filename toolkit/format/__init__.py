"""The dataset format, version 1 (docs/format.md): schema, shards, tables, manifest, pins, commit, verify."""
