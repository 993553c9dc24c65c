"""Steps on whole batches, which run natively and in place when all samples are filled."""
