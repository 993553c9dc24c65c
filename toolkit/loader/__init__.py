"""Reading: dataset, order, fetch, engine, loader, device outputs."""
