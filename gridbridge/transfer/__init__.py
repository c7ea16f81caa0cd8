"""Transfer queues: Grid Engine queues whose jobs run on another cluster."""
