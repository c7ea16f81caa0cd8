"""What a cell keeps of hosts that may be switched off and on."""
