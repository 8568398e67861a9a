"""``python -m studies``: the command line of the studies."""

from studies.command import app

if __name__ == "__main__":
    app(prog_name="python -m studies")
