"""The commands, one file each: arguments in, calls to the package, nothing else.

A file of this folder is a command if it defines a function of its own name; `newkinds.cli` finds it. The files
import PyTorch and the like inside their function, so that `--help` answers at once.
"""
