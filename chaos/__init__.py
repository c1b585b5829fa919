"""Real processes, real faults, and a judge: what is lost, doubled or overcommitted while everything dies."""
