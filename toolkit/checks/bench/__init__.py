"""Cases measured in processes of their own."""
