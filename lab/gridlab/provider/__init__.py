"""The power service: rents out the lab's reserve as a provider of machines would."""
