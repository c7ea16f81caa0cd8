"""A real grid on one machine: hosts are namespaces, clusters are real Grid Engine cells."""
