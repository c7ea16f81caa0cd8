"""gridbridge.Executor, which runs Python calls as tasks of campaigns."""
