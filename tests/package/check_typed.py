"""Check that public names have types, and that pyright accepts the types of a training loop.

``check_typed.py`` needs pyright. At least 98 % of the public symbols must have known types.
"""

import json
import subprocess
import sys

LEAST = 0.98


def main() -> None:
    """Run both checks; exit with a message if one fails."""
    pyright = [sys.executable, "-m", "pyright"]
    subprocess.run([*pyright, "tests/datasets/test_types.py"], check=True)
    command = [*pyright, "--verifytypes", "torchrec_io", "--ignoreexternal", "--outputjson"]
    ran = subprocess.run(command, check=False, stdout=subprocess.PIPE)  # fails below 100 %
    found = json.loads(ran.stdout)["typeCompleteness"]
    score = found["completenessScore"]
    if score < LEAST:
        for symbol in found["symbols"]:
            if symbol["isExported"] and not symbol["isTypeKnown"]:
                print(symbol["name"])
        sys.exit(f"types of public symbols must be known for {LEAST:.0%}, got {score:.1%}")
    print(f"{score:.1%} of the public symbols have known types")


if __name__ == "__main__":
    main()
