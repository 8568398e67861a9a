"""``python -m loopwise``: the command line."""

from loopwise.cli.main import run

if __name__ == "__main__":
    run()
