"""The commands about remote jobs, without their options and output."""
