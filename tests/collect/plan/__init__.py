"""Plans: what is listed, read and refused."""
