"""Runs the program that pip puts beside the console script."""

import os
import sys
import sysconfig


def main():
    folders = [os.path.dirname(os.path.realpath(sys.argv[0])), sysconfig.get_path("scripts")]
    if "posix_user" in sysconfig.get_scheme_names():
        folders.append(sysconfig.get_path("scripts", "posix_user"))
    for folder in folders:
        program = os.path.join(folder, "switchboard")
        if os.path.isfile(program):
            os.execv(program, [program, *sys.argv[1:]])
    sys.exit("switchboard-acp: the program is missing in " + " and ".join(folders) + "; install the package again")


if __name__ == "__main__":
    main()
