"""Blocks of remote objects on the local disk, shared by the processes of a machine."""
