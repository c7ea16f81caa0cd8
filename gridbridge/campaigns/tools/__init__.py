"""The work of the grid commands, without their options and output."""
