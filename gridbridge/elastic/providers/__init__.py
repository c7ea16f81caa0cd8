"""Where machines come from: clouds, programs, and power switches."""
