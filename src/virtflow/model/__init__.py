"""The words of the domain: frozen records and the rules between them. No clock, no chance, no I/O."""
