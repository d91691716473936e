"""What the entries of the schedule do: one file each, on the interface of `base`."""
