"""What every package uses: array types, threads, and files that are written completely or not at all."""
