"""How a test run is organised: who owns the shared servers, which process runs which file, how long folders and files took."""
