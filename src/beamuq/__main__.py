"""``python -m beamuq``: the command ``beamuq``."""

from beamuq.cli import main

if __name__ == "__main__":
    main()
