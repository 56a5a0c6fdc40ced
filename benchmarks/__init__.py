"""Benchmarks that anyone can run; the README quotes their figures."""
