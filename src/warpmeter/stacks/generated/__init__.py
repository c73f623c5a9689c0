"""Made by schemas/generate.py; do not edit."""
