"""`python -m calque` is the command `calque`."""
from calque_cli import main

if __name__ == "__main__":
    main()
