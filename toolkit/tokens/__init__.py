"""Token datasets: documents packed once, streamed as windows of one long run of tokens."""
