"""What the commands about remote jobs do, apart from their options and output."""
