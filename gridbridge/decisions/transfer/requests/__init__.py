"""What a job asks for at another cluster, and how one that was refused is marked."""
